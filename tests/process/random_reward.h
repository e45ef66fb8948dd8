#pragma once
// A random reward model for token runs.

#include <filesystem>
#include <string>

#include "tests/models/lm/reward_models.h"
#include "tests/process/train_process.h"
#include "text/char_tokenizer.h"
#include "text/write_tokenizer.h"

namespace troupe::test {

// In FOLDER/reward; unless others are given, its characters are the digits and ">".
struct RandomReward {
  std::string folder;
  TinyRewardModel model;

  explicit RandomReward(const std::string& in, const LmShape& of = shape(),
                        const CharTokenizer& characters = CharTokenizer("0123456789>"))
      : folder(in + "/reward"), model(of, 3) {
    std::filesystem::create_directories(folder);
    write_tokenizer_json(characters, posix_disk(), folder);
    model.write(folder);
  }
  static LmShape shape() {
    LmShape result = tiny_shape(LmFamily::llama, 4);
    result.vocabulary = 13;
    return result;
  }
  Words settings() const { return {"reward_model.path=" + folder, "reward_model.weight=0.5", "task.weight=2"}; }
  // The same folder with other weights.
  void change() {
    for (float& weight : model.head) weight = -weight;
    model.write(folder);
  }
};

}  // namespace troupe::test
