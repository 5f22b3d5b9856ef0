#include <tilewright/workload/model.h>

namespace tilewright {

ModelConfig read_model(const Document& document, std::int64_t sequence) {
  if (is_convnet(document)) return read_convnet(document);
  return read_decoder(document, sequence);
}

Graph build_graph(const ModelConfig& config) {
  return std::visit([](const auto& c) { return build_graph(c); }, config);
}

}  // namespace tilewright
