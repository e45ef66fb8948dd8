#pragma once
// HfFolder: a pre-trained decoder in a folder as Hugging Face's transformers writes it: config.json, and either
// model.safetensors or model.safetensors.index.json with the shards that it names. Tensors are float32, float16 or
// bfloat16. Blocks on the disk; any thread.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/decoder/lm_shape.h"
#include "runtime/base/file.h"
#include "runtime/run_folder/safetensors.h"

namespace troupe {

// What is computed from the hidden rows: logits of tokens, or one score (tensor score.weight), as models of sequence
// classification with one label do. A model with a score counts as one with tied embeddings: it has no output layer.
enum class HfHead : uint8_t { tokens, score };
inline constexpr const char* kScoreWeight = "score.weight";  // [1, hidden]

// Whether the folder has a config.json and weights beside it. So it is not the folder of a run.
bool is_hf_folder(const Disk& disk, const std::string& folder);

// The head that the config.json in the folder names; tokens where it names none or cannot be read.
HfHead hf_head(const Disk& disk, const std::string& folder);

class HfFolder {
 public:
  // Reads config.json and the headers of all shards, and checks that the tensors are those of the shape: none missing,
  // none unknown, each of its shape and a dtype that is read. Throws ConfigError that begins with `setting`, the file
  // and the tensor, with what is there and what is expected.
  // Also for an architecture with another head and, with HfHead::score, another number of labels.
  HfFolder(const Disk& disk, const std::string& folder, const std::string& setting = "model.path",
           HfHead head = HfHead::tokens);

  const LmShape& shape() const { return shape_; }
  // Those of lm_tensors(shape()), and of the score.
  std::vector<LmTensor> tensors() const;

  // Fills place(name) with the numbers of each tensor of tensors(). Throws ConfigError as above for a number
  // that is not finite or a file that became shorter.
  void read(const std::function<std::span<float>(const std::string& name)>& place) const;

 private:
  struct Source {
    std::string file;  // its path
    SafetensorsEntry entry;
  };
  [[noreturn]] void refuse(const std::string& what) const;
  std::string read_text(const std::string& file, uint64_t most) const;
  std::map<std::string, std::string> read_index() const;
  void read_headers();
  void add_shard(const std::string& name, const std::map<std::string, std::string>& index);
  void check_tensors() const;
  bool is_ignored(const std::string& name) const;
  void check_ignored() const;
  std::vector<float> numbers(const Source& source, uint64_t first, uint64_t count) const;

  const Disk& disk_;
  std::string folder_, setting_;
  HfHead head_;
  LmShape shape_;
  std::map<std::string, Source> tensors_;
};

}  // namespace troupe
