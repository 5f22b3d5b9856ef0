#include <algorithm>
#include <cmath>
#include <string>

#include <tilewright/base/error.h>
#include <tilewright/hardware/compute_unit.h>
#include <tilewright/hardware/memory.h>

namespace tilewright {

namespace {

/// Simulated time ends at 2^62 ps; one operator may take a small part of that.
void check_duration(double ps, const ComputeShape& shape, const char* what) {
  constexpr double kLongest = 4e18 / 16;
  if (ps < kLongest) return;
  const std::string work =
      shape.engine == Engine::matrix
          ? std::to_string(shape.batch) + " GEMMs of " + std::to_string(shape.m) + " x " +
                std::to_string(shape.n) + " x " + std::to_string(shape.k)
          : to_string(shape.engine) + " work on " + std::to_string(shape.elements) + " elements";
  throw InputError("an operator (" + work + ") would take " + to_string(Seconds(ps * 1e-12)) +
                   " of " + what + "; simulated time is limited to " +
                   to_string(Seconds(kLongest * 1e-12)) +
                   " for one operator: check the machine's rates and the sizes");
}

}  // namespace

ComputeCosts::ComputeCosts(const MachineConfig& machine, const Program& program, double speed)
    : program_(program), costs_(program.shapes.size()) {
  const std::unique_ptr<ComputeModel> model = make_compute_model(machine);
  for (std::size_t i = 0; i < costs_.size(); ++i) {
    const ComputeShape& shape = program.shapes[i];
    if (shape.denominator == 0) throw InputError("an operator shape has denominator 0");
    const std::string format =
        shape.format < program.names.size() ? program.names[shape.format] : std::string();
    costs_[i].engine =
        1e12 / speed *
        (shape.engine == Engine::matrix
             ? model->matrix_seconds({shape.batch, shape.m, shape.n, shape.k, shape.flop}, format)
             : model->vector_seconds(shape.elements, format));
    check_duration(costs_[i].engine, shape, "engine time");
    check_duration(
        machine.sram.seconds(through_sram(shape) - written_to_sram(shape), written_to_sram(shape)) *
            1e12,
        shape, "SRAM time");
  }
}

Picoseconds ComputeCosts::Cost::of(double per_part, std::uint32_t begin, std::uint32_t amount) {
  const auto at = [per_part](double parts) { return whole_picoseconds(per_part * parts); };
  return at(static_cast<double>(begin) + amount) - at(begin);
}

ComputeUnit::ComputeUnit(const sc_core::sc_module_name& name, const ComputeUnitConfig& config)
    : sc_core::sc_module(name), in("in"), memory("memory"), costs_(config.costs) {
  in.bind(static_cast<tlm::tlm_fw_transport_if<ComputeTypes>&>(*this));
  memory.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
}

// The first operation of a shape on any tile asks its SRAM how long the operands take.
void ComputeUnit::measure(ComputeCosts::Cost& cost, const ComputeShape& shape) {
  cost.sram = 0;
  if (through_sram(shape) > 0) {
    const auto bytes = static_cast<std::uint64_t>(std::llround(through_sram(shape)));
    const PooledPayload pooled = costs_.payloads().allocate(tlm::TLM_READ_COMMAND, 0, bytes);
    pooled.extension->written = static_cast<std::uint64_t>(std::llround(written_to_sram(shape)));
    tlm::tlm_generic_payload& payload = *pooled.payload;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    const tlm::tlm_sync_enum answer = memory->nb_transport_fw(payload, phase, delay);
    if (answer != tlm::TLM_COMPLETED || !payload.is_response_ok()) {
      throw InternalError(std::string(name()) + ": an SRAM answers at once how long it takes");
    }
    payload.release();
    cost.sram = static_cast<double>(delay.value());
  }
  cost.per_part = std::max(cost.engine, cost.sram) / shape.denominator;
  cost.stall_per_part = std::max(0.0, cost.sram - cost.engine) / shape.denominator;
}

tlm::tlm_sync_enum ComputeUnit::nb_transport_fw(ComputeRequest& request, ComputePhase&,
                                                sc_core::sc_time& delay) {
  ComputeCosts::Cost& cost = costs_[request.shape];
  if (cost.sram < 0) measure(cost, costs_.shape(request.shape));
  using Cost = ComputeCosts::Cost;
  delay += sc_core::sc_time::from_value(Cost::of(cost.per_part, request.begin, request.amount));
  request.stall = Cost::of(cost.stall_per_part, request.begin, request.amount);
  return tlm::TLM_COMPLETED;
}

}  // namespace tilewright
