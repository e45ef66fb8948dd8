#include "models/lm/reward_model.h"

#include <algorithm>
#include <utility>

#include "models/decoder/value_head.h"
#include "models/lm/hf_folder.h"
#include "runtime/base/errors.h"
#include "runtime/base/text_format.h"

namespace troupe {
namespace {

constexpr const char* kSetting = "reward_model.path";
constexpr size_t kTokens = 1024;  // of the answers of one pass, unless one of them has more
constexpr float kNoBias = 0;

Signature signature_of(const HfFolder& folder) {
  Signature result;
  for (const LmTensor& tensor : folder.tensors())
    result.tensors.push_back({TensorGroup::policy, tensor.name, tensor.shape, DType::f32});
  std::ranges::sort(result.tensors, {}, &TensorSpec::name);
  return result;
}

WeightBlock weights_of(const HfFolder& folder) {
  WeightBlock weights(signature_of(folder));
  folder.read([&](const std::string& name) { return weights.floats(name); });
  return weights;
}

std::string hash_of(WeightBlock& weights) {
  const std::span<const float> all = weights.parameters();
  return format_hash(checksum_of(all.data(), all.size_bytes()));
}

// Cells for the prompt and the answers of the largest pass.
int64_t cells_of(std::span<const int32_t> prompt, std::span<const std::vector<int32_t>> answers) {
  size_t all = 0, longest = 0;
  for (const std::vector<int32_t>& answer : answers) {
    all += answer.size();
    longest = std::max(longest, answer.size());
  }
  return static_cast<int64_t>(prompt.size() + std::min(all, std::max(kTokens, longest)));
}

}  // namespace

LmShape reward_model_shape(const Disk& disk, const std::string& folder) {
  return HfFolder(disk, folder, kSetting, HfHead::score).shape();
}

RewardModel::RewardModel(const Disk& disk, const std::string& folder, int threads)
    : RewardModel(HfFolder(disk, folder, kSetting, HfHead::score), threads) {}

RewardModel::RewardModel(const HfFolder& folder, int threads)
    : parallel_(threads), decoder_(folder.shape(), parallel_) {
  WeightBlock read = weights_of(folder);
  hash_ = hash_of(read);
  const WeightBlock& weights = read;
  const std::span<const float> score = weights.floats(kScoreWeight);
  score_.assign(score.begin(), score.end());
  DecoderWeights tensors =
      bind_decoder<const float>(folder.shape(), [&](const std::string& name) { return weights.floats(name); });
  tensors.output = {};
  auto packed = std::make_shared<PackedDecoder>();
  packed->pack(folder.shape(), tensors, parallel_);
  packed->keep_rest(tensors);
  decoder_.load(std::move(packed));
}

std::vector<float> RewardModel::score(std::span<const int32_t> prompt, std::span<const std::vector<int32_t>> answers) {
  const MutexLock lock(mutex_);
  const int64_t cells = cells_of(prompt, answers);
  if (!store_ || store_->layers.front().cells() < cells) store_.emplace(decoder_.shape(), cells);
  std::vector<float> scores;
  for (size_t next = 0; next < answers.size();) next = score_some(prompt, answers, next, scores);
  return scores;
}

size_t RewardModel::score_some(std::span<const int32_t> prompt, std::span<const std::vector<int32_t>> answers,
                               size_t first, std::vector<float>& scores) {
  const auto prompt_tokens = static_cast<int64_t>(prompt.size());
  std::vector<int32_t> ids;
  std::vector<LmSequence> sequences;
  if (first == 0 && prompt_tokens > 0) {
    ids.assign(prompt.begin(), prompt.end());
    sequences.push_back({.tokens = prompt_tokens});
  }
  std::vector<int64_t> last;  // rows
  int64_t tokens = 0;         // of answers
  size_t next = first;
  for (; next < answers.size(); ++next) {
    const std::vector<int32_t>& answer = answers[next];
    const auto own = static_cast<int64_t>(answer.size());
    TROUPE_CHECK(own > 0, "answer", next);
    if (next > first && static_cast<size_t>(tokens + own) > kTokens) break;
    sequences.push_back(
        {.tokens = own, .prefix_begin = 0, .prefix_end = prompt_tokens, .own_begin = prompt_tokens + tokens});
    ids.insert(ids.end(), answer.begin(), answer.end());
    tokens += own;
    last.push_back(static_cast<int64_t>(ids.size()) - 1);
  }
  hidden_.resize(static_cast<int64_t>(ids.size()) * decoder_.shape().hidden);
  decoder_.forward({ids, sequences}, *store_, hidden_.span());
  scores.resize(next);
  head_values(hidden_.span(), last, {score_, {&kNoBias, 1}}, std::span(scores).subspan(first), parallel_);
  return next;
}

}  // namespace troupe
