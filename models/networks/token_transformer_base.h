#pragma once
// TokenTransformerBase: the weights of a token_transformer whose decoder stays as it is while adapters of it are
// trained (model.lora). No LibTorch. Constant once read; any thread.

#include <map>
#include <memory>
#include <string>

#include "runtime/base/array.h"

namespace troupe {

struct TokenTransformerBase {
  std::string file;                      // or folder that they were read from
  std::map<std::string, Array> tensors;  // all that were saved
  std::string hash;                      // XXH3 of names and bytes of those that stay frozen, 16 hexadecimal digits

  // Throws ConfigError that begins with model.path unless it has this tensor of float32.
  void require(const std::string& name, const Shape& shape) const;
};

// The base in `path`, the value of model.path: the folder of a checkpoint or a safetensors file. It is read once as
// long as somebody holds it. Throws ConfigError that begins with the setting.
std::shared_ptr<const TokenTransformerBase> token_transformer_base(const std::string& path);

}  // namespace troupe
