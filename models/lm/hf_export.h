#pragma once
// Writes a decoder as files that Hugging Face's transformers and PEFT load. Blocks on the disk; any thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/lm/lm_model.h"
#include "runtime/base/file.h"

namespace troupe {

// Token ids that config.json and generation_config.json name.
struct ExportedIds {
  std::optional<int32_t> bos, pad;
  std::vector<int32_t> ends;  // each of them ends an answer
};

// The adapters' tensors added to the frozen ones: W + alpha / rank B A. Sums in float64.
std::map<std::string, Array> merge_adapters(const LmModel& model, const std::map<std::string, Array>& adapters);

// config.json and model.safetensors (float32) in a folder, which must exist. Throws IoError.
void write_hf_model(Disk& disk, const std::string& folder, const LmShape& shape, const ExportedIds& ids,
                    const std::map<std::string, Array>& tensors);

// generation_config.json: the most likely answer of at most `answer_tokens`, of tokens that `model` can draw. Throws
// IoError.
void write_generation_config(Disk& disk, const std::string& folder, const LmModel& model, const ExportedIds& ids,
                             int64_t answer_tokens);

// adapter_config.json and adapter_model.safetensors in a folder, which must exist. Throws IoError.
void write_peft_adapters(Disk& disk, const std::string& folder, const LmModel& model,
                         const std::map<std::string, Array>& adapters);

}  // namespace troupe
