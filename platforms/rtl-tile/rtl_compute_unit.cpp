#include "rtl_compute_unit.h"

#include <string>

#include <tilewright/base/error.h>
#include <tilewright/hardware/process.h>

namespace tilewright::rtl {

RtlComputeUnit::RtlComputeUnit(const sc_core::sc_module_name& name,
                               const RtlComputeUnitConfig& config)
    : sc_core::sc_module(name),
      in("in"),
      vector("vector", ComputeUnitConfig{config.backplane.costs(config.tile)}),
      config_(config),
      vector_out_("vector_out"),
      requested_("requested") {
  in.bind(*this);
  vector_out_.bind(answer_);
  vector_out_.bind(vector.in);
  TILEWRIGHT_HAS_PROCESS(RtlComputeUnit);
  SC_THREAD(compute);
}

tlm::tlm_sync_enum RtlComputeUnit::nb_transport_fw(ComputeRequest& request, ComputePhase& phase,
                                                   sc_core::sc_time& delay) {
  if (request.engine != Engine::matrix) return vector_out_->nb_transport_fw(request, phase, delay);
  const ComputeShape& shape = config_.backplane.costs(config_.tile).shape(request.shape);
  if (request.begin != 0 || request.amount != shape.denominator || shape.batch != 1) {
    throw InputError(std::string(name()) + ": the RTL engine computes one whole product at a time");
  }
  request_ = &request;
  request.stall = 0;
  requested_.notify(sc_core::SC_ZERO_TIME);
  return tlm::TLM_ACCEPTED;
}

void RtlComputeUnit::compute() {
  for (;;) {
    wait(requested_);
    const ComputeShape& shape = config_.backplane.costs(config_.tile).shape(request_->shape);
    Gemm gemm = config_.operands(shape);
    const std::uint64_t cycles = config_.engine.run(gemm, config_.pipelined);
    config_.done(gemm, cycles);
    ComputePhase phase = ComputePhase::end;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    in[0]->nb_transport_bw(*request_, phase, delay);
  }
}

}  // namespace tilewright::rtl
