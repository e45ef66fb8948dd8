#pragma once
// Adapters in a folder as PEFT writes them: adapter_config.json and adapter_model.safetensors. Plain functions; block
// on the disk; any thread.

#include <map>
#include <string>

#include "models/decoder/lora.h"
#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/weights/weights.h"

namespace troupe {

bool is_peft_folder(const Disk& disk, const std::string& folder);

// The adapters as float32, under the names of a model with `signature`, which has adapters of `lora`. The folder does
// not say which weights they were trained on. Throws ConfigError, beginning with the file, for adapters of another
// kind.
std::map<std::string, Array> read_peft_adapters(const Disk& disk, const std::string& folder, const LoraConfig& lora,
                                                const Signature& signature);

}  // namespace troupe
