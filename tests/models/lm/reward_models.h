#pragma once
// Folders of random reward models for tests.

#include <map>
#include <string>
#include <vector>

#include "models/lm/lm_config.h"
#include "runtime/base/file.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/models/decoder/tiny_models.h"

namespace troupe::test {

inline LmShape without_output(LmShape shape) {
  shape.tied_embeddings = true;
  return shape;
}

struct TinyRewardModel {
  TinyModel decoder;
  std::vector<float> head;
  // Added to config.json.
  std::string extra = R"({"architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "score"}})";

  TinyRewardModel(const LmShape& shape, uint64_t seed)
      : decoder(without_output(shape), seed), head(random_floats(shape.hidden, seed)) {
    if (shape.family == LmFamily::qwen2) extra.replace(extra.find("Llama"), 5, "Qwen2");
    if (shape.family == LmFamily::qwen3) extra.replace(extra.find("Llama"), 5, "Qwen3");
  }

  std::map<std::string, Array> tensors() const {
    std::map<std::string, Array> result;
    for (const LmTensor& tensor : lm_tensors(decoder.shape))
      result[tensor.name] = Array::of<float>(tensor.shape, decoder.values.at(tensor.name));
    result["score.weight"] = Array::of<float>({1, decoder.shape.hidden}, head);
    return result;
  }
  void write(const std::string& folder, const std::map<std::string, Array>& tensors) const {
    posix_disk().write_atomic(folder + "/config.json", lm_config_text(decoder.shape, extra));
    write_safetensors(posix_disk(), folder + "/model.safetensors", tensors);
  }
  void write(const std::string& folder) const { write(folder, tensors()); }
};

}  // namespace troupe::test
