// Reads the config.json that accompanies a model on the Hugging Face hub.
#pragma once

#include <string>

#include <tilewright/base/config.h>
#include <tilewright/workload/decoder.h>

#include "decoder_shape.h"

namespace tilewright {

/// The convolutional networks that are read, by another reader.
constexpr const char* kResNetArchitecture = "ResNetForImageClassification";
constexpr const char* kResNetModelType = "resnet";

/// True when the document names an architecture in the way of Hugging Face.
bool is_hugging_face(const Section& root);

struct HuggingFaceModel {
  DecoderConfig config;      ///< sequence is 0: the file does not say
  std::string architecture;  ///< "LlamaForCausalLM"
  /// The key that holds a field, for messages.
  std::string (*key_of)(ShapeField field) = nullptr;
};

/// Throws InputError: an architecture that is not supported (lists those that are), a key missing.
HuggingFaceModel read_hugging_face(const Section& root);

}  // namespace tilewright
