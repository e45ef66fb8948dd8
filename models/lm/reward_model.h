#pragma once
// RewardModel: a decoder on the CPU that gives an answer to a prompt a score: a linear head on the hidden row of its
// last token, as models of sequence classification in transformers. Never changes; any thread, of which one at a time
// computes.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/decoder/decoder.h"
#include "models/weights/weight_block.h"
#include "runtime/base/file.h"
#include "runtime/base/mutex.h"

namespace troupe {

class HfFolder;

// The shape of the model in a folder, without an output layer. Throws ConfigError "reward_model.path: ..." for a folder
// that is not one of a reward model.
LmShape reward_model_shape(const Disk& disk, const std::string& folder);

class RewardModel {
 public:
  // Computes on `threads` threads. Throws as reward_model_shape().
  RewardModel(const Disk& disk, const std::string& folder, int threads);

  // XXH3 of the weights, 16 hexadecimal digits.
  const std::string& hash() const { return hash_; }

  // The score of each answer to a prompt, from their ids. No answer is empty. A score depends neither on the other
  // answers nor on threads. It may be not finite.
  std::vector<float> score(std::span<const int32_t> prompt, std::span<const std::vector<int32_t>> answers);

 private:
  RewardModel(const HfFolder& folder, int threads);
  // Computes answers from number `first` on, after the prompt if that is 0. Returns the number of the next answer.
  size_t score_some(std::span<const int32_t> prompt, std::span<const std::vector<int32_t>> answers, size_t first,
                    std::vector<float>& scores) TROUPE_REQUIRES(mutex_);

  std::string hash_;
  std::vector<float> score_;  // the weights of the head
  Mutex mutex_;
  ParallelFor parallel_ TROUPE_GUARDED_BY(mutex_);
  Decoder decoder_ TROUPE_GUARDED_BY(mutex_);
  std::optional<KvStore> store_ TROUPE_GUARDED_BY(mutex_);
  FloatBuffer hidden_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe
