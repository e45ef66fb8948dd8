#pragma once
// A random reward model for the task `reverse`, for tests.

#include <filesystem>
#include <string>

#include "runtime/base/file.h"
#include "tests/models/lm/reward_models.h"
#include "tests/process/process.h"
#include "text/char_tokenizer.h"
#include "text/write_tokenizer.h"

namespace troupe::test {

// In FOLDER/reward.
struct Reward {
  std::string folder;
  TinyRewardModel model{shape(), 3};

  explicit Reward(const std::string& in) : folder(in + "/reward") {
    std::filesystem::create_directories(folder);
    write_tokenizer_json(CharTokenizer("0123456789>"), posix_disk(), folder);
    model.write(folder);
  }
  static LmShape shape() {
    LmShape result = tiny_shape(LmFamily::llama, 4);
    result.vocabulary = 13;
    return result;
  }
  Words settings() const { return set({"reward_model.path=" + folder, "reward_model.weight=0.5", "task.weight=2"}); }
  // The same folder with other weights.
  void change() {
    for (float& weight : model.head) weight = -weight;
    model.write(folder);
  }
};

}  // namespace troupe::test
