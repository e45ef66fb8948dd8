#pragma once
// Writes a decoder as files that Hugging Face's transformers and PEFT load. Blocks on the disk; any thread.

#include <map>
#include <string>

#include "models/lm/lm_model.h"
#include "runtime/base/file.h"

namespace troupe {

// Token ids that config.json names; below 0 = none.
struct SpecialIds {
  int32_t bos = -1, eos = -1, pad = -1;
};

// The adapters' tensors added to the frozen ones: W + alpha / rank B A. Sums in float64.
std::map<std::string, Array> merge_adapters(const LmModel& model, const std::map<std::string, Array>& adapters);

// config.json and model.safetensors (float32) in a folder, which must exist. Throws IoError.
void write_hf_model(Disk& disk, const std::string& folder, const LmShape& shape, const SpecialIds& ids,
                    const std::map<std::string, Array>& tensors);

// adapter_config.json and adapter_model.safetensors in a folder, which must exist. Throws IoError.
void write_peft_adapters(Disk& disk, const std::string& folder, const LmModel& model,
                         const std::map<std::string, Array>& adapters);

}  // namespace troupe
