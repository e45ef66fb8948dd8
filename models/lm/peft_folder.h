#pragma once
// Adapters in a folder as PEFT writes them: adapter_config.json and adapter_model.safetensors. Plain functions; block
// on the disk; any thread.

#include <map>
#include <optional>
#include <string>

#include "models/decoder/lora.h"
#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/weights/weights.h"

namespace troupe {

bool is_peft_folder(const Disk& disk, const std::string& folder);

// Keys of the metadata that an export adds to adapter_model.safetensors, which PEFT ignores: the hash of the frozen
// weights, and their config.json.
inline constexpr const char* kBaseHash = "troupe.base";
inline constexpr const char* kBaseConfig = "troupe.config";

struct PeftAdapters {
  std::map<std::string, Array> tensors;
  // The shape of the model that they were trained on: as the export says, or else as in base_model_name_or_path, if
  // that is a folder of this machine.
  std::optional<LmShape> base;
};

// The adapters as float32, under the names of a model with `signature`, which has adapters of `lora`. The tensor that
// names the frozen weights is that of the export, or that of the signature for a folder that does not name them. Throws
// ConfigError, beginning with the file, for adapters of another kind.
PeftAdapters read_peft_adapters(const Disk& disk, const std::string& folder, const LoraConfig& lora,
                                const Signature& signature);

}  // namespace troupe
