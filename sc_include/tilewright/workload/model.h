// A model of any kind that can be read.
#pragma once

#include <cstdint>
#include <variant>

#include <tilewright/workload/convnet.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {

using ModelConfig = std::variant<DecoderConfig, ConvnetConfig>;

/// read_decoder() or read_convnet(), by the keys of the document. `sequence` > 0 is a decoder's.
ModelConfig read_model(const Document& document, std::int64_t sequence = 0);

Graph build_graph(const ModelConfig& config);

}  // namespace tilewright
