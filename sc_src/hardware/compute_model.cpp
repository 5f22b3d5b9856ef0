#include <tilewright/base/error.h>
#include <tilewright/hardware/compute_model.h>

namespace tilewright {

namespace {

class PeakModel final : public ComputeModel {
 public:
  explicit PeakModel(const MachineConfig& machine) : machine_(machine) {}

  double engine_time(const ComputeShape& shape, const std::string& format) const override {
    if (shape.engine == Engine::matrix) return shape.flop / machine_.peak(format).value() * 1e12;
    if (shape.elements == 0) return 0;
    const double throughput = machine_.vector.throughput.value();
    if (!(throughput > 0)) throw InputError("the machine has no vector engine (vector.throughput)");
    return shape.elements / throughput * (format == "fp32" ? 2e12 : 1e12);
  }

 private:
  MachineConfig machine_;
};

}  // namespace

std::unique_ptr<ComputeModel> make_compute_model(const MachineConfig& machine) {
  if (machine.matrix.model == "peak") return std::make_unique<PeakModel>(machine);
  throw InputError("matrix.model: '" + machine.matrix.model + "' is not known; allowed: peak");
}

}  // namespace tilewright
