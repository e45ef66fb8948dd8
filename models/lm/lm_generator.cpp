#include "models/lm/lm_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "algorithms/losses/logprob.h"
#include "models/decoder/kernels/kernel_table.h"
#include "models/heads/heads.h"
#include "models/lm/lm_replica.h"
#include "models/slot_versions.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

constexpr int64_t kDrawnLogits = 1 << 15;  // of one thread's part: enough to outweigh waking it

class LmGenerator final : public Generator {
 public:
  LmGenerator(const LmModel& model, const LmGeneratorOptions& options);

  std::shared_ptr<const Signature> signature() const override { return replica_.signature(); }
  void load(const WeightSnapshot& weights) override;
  int64_t prompt_slots() const override { return options_.prompt_slots; }
  int64_t answer_slots() const override { return options_.answer_slots; }
  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override;

 private:
  LmSequence place(const GeneratorPart& part) const;
  int64_t sample(std::span<const float> logits, double uniform) const;
  DrawnToken draw(std::span<const float> logits, const TokenDraw& draw) const;
  // From the logits of the last token of each part that has draws.
  std::vector<DrawnToken> draw_all(std::span<const GeneratorPart> parts);

  LmModel model_;
  LmShape shape_;
  LmGeneratorOptions options_;
  ParallelFor parallel_;
  LmReplica replica_;
  KvStore store_;
  PolicyVersion version_;  // of the weights
  SlotVersions versions_;
  FloatBuffer hidden_, rows_, logits_;
  std::vector<int32_t> ids_;
  std::vector<LmSequence> sequences_;
};

LmGenerator::LmGenerator(const LmModel& model, const LmGeneratorOptions& options)
    : model_(model),
      shape_(model.shape),
      options_(options),
      parallel_(options.threads),
      replica_(model, parallel_),
      store_(shape_, options.prompt_slots * options.prompt_tokens + options.answer_slots * options.answer_tokens),
      versions_(options.prompt_slots, options.answer_slots) {
  TROUPE_CHECK(model.drawable() <= shape_.vocabulary, model.tokens, shape_.vocabulary);
  if (options.prompt_tokens + options.answer_tokens > shape_.max_positions)
    throw ConfigError("a prompt of " + std::to_string(options.prompt_tokens) + " tokens and an answer of " +
                      std::to_string(options.answer_tokens) + " exceed the model's " +
                      std::to_string(shape_.max_positions) + " positions");
}

void LmGenerator::load(const WeightSnapshot& weights) {
  replica_.load(weights);
  version_ = weights.version;
}

LmSequence LmGenerator::place(const GeneratorPart& part) const {
  const auto tokens = static_cast<int64_t>(part.tokens.size());
  const int64_t most = part.answer < 0 ? options_.prompt_tokens : options_.answer_tokens;
  TROUPE_CHECK(tokens >= 1 && part.before >= 0 && part.before + tokens <= most, tokens, part.before, most);
  TROUPE_CHECK(part.prompt >= 0 && part.prompt < options_.prompt_slots, part.prompt);
  TROUPE_CHECK(part.answer < options_.answer_slots, part.answer);
  const int64_t prompt = part.prompt * options_.prompt_tokens;
  if (part.answer < 0) return {.tokens = tokens, .own_begin = prompt, .own_before = part.before};
  return {.tokens = tokens,
          .prefix_begin = prompt,
          .prefix_end = prompt + part.prompt_tokens,
          .own_begin = options_.prompt_slots * options_.prompt_tokens + part.answer * options_.answer_tokens,
          .own_before = part.before};
}

// Draws by inverting the cumulative distribution in the order of the ids: over blocks first, then inside one.
int64_t LmGenerator::sample(std::span<const float> logits, double uniform) const {
  constexpr int64_t kBlock = 64, kLanes = 8;
  const auto vocabulary = static_cast<int64_t>(logits.size());
  thread_local FloatBuffer scratch;
  thread_local std::vector<double> below;  // total weight of the blocks before each
  scratch.resize(vocabulary);
  float* weights = scratch.data();
  float max = 0, sum = 0;
  lm_kernels().scale(logits.data(), static_cast<float>(1.0 / options_.temperature), vocabulary, weights);
  lm_kernels().exp_scores(weights, vocabulary, &max, &sum);
  below.assign(1, 0.0);
  for (int64_t from = 0; from < vocabulary; from += kBlock) {
    const int64_t to = std::min(from + kBlock, vocabulary);
    double lanes[kLanes] = {};
    for (int64_t i = from; i < to; ++i) lanes[(i - from) % kLanes] += weights[i];
    below.push_back(below.back() + std::accumulate(lanes, lanes + kLanes, 0.0));
  }
  const double aim = uniform * below.back();
  const auto block = std::ranges::upper_bound(below.begin() + 1, below.end() - 1, aim) - (below.begin() + 1);
  double reached = below[static_cast<size_t>(block)];
  const int64_t to = std::min((block + 1) * kBlock, vocabulary);
  int64_t last = -1;  // of those with a probability above 0
  for (int64_t i = block * kBlock; i < to; ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    reached += weights[i];
    if (reached > aim) break;
  }
  return last >= 0 ? last : std::ranges::max_element(logits) - logits.begin();
}

DrawnToken LmGenerator::draw(std::span<const float> logits, const TokenDraw& draw) const {
  const auto tokens = static_cast<int64_t>(logits.size());
  const int64_t chosen =
      draw.greedy
          ? std::ranges::max_element(logits) - logits.begin()
          : sample(logits, Rng(derive_key(draw.key, "token", static_cast<uint64_t>(draw.index))).uniform_double());
  DrawnToken result{static_cast<int32_t>(chosen), 0};
  log_probs_entropy<float>({logits.data(), 1, tokens, tokens}, {&chosen, 1}, options_.temperature,
                           {&result.log_prob, 1}, {}, {});
  if (!std::isfinite(result.log_prob)) throw NotFinite("the model's logits are not finite");
  return result;
}

std::vector<DrawnToken> LmGenerator::compute(std::span<const GeneratorPart> parts) {
  TROUPE_CHECK(replica_.loaded(), "load() comes first");
  ids_.clear();
  sequences_.clear();
  for (const GeneratorPart& part : parts) {
    sequences_.push_back(place(part));
    ids_.insert(ids_.end(), part.tokens.begin(), part.tokens.end());
  }
  const auto tokens = static_cast<int64_t>(ids_.size());
  hidden_.resize(tokens * shape_.hidden);
  replica_.decoder().forward({ids_, sequences_}, store_, hidden_.span());

  int64_t drawing = 0, last = 0;
  rows_.resize(static_cast<int64_t>(parts.size()) * shape_.hidden);
  for (const GeneratorPart& part : parts) {
    last += static_cast<int64_t>(part.tokens.size());
    if (part.draws.empty()) continue;
    std::copy_n(hidden_.data() + (last - 1) * shape_.hidden, shape_.hidden, rows_.data() + drawing * shape_.hidden);
    ++drawing;
  }
  logits_.resize(drawing * shape_.vocabulary);
  if (drawing > 0)
    replica_.decoder().logits(rows_.span().first(static_cast<size_t>(drawing * shape_.hidden)), logits_.span());
  return draw_all(parts);
}

std::vector<DrawnToken> LmGenerator::draw_all(std::span<const GeneratorPart> parts) {
  struct Draw {
    int64_t row;
    TokenDraw draw;
    CellVersions cells;
  };
  std::vector<Draw> draws;
  int64_t row = 0;
  for (const GeneratorPart& part : parts) {
    const CellVersions cells = versions_.note(part, version_);
    for (const TokenDraw& each : part.draws) draws.push_back({row, each, cells});
    if (!part.draws.empty()) ++row;
  }
  std::vector<DrawnToken> result(draws.size());
  const auto count = static_cast<int64_t>(draws.size());
  for_parts(count, std::max<int64_t>(1, kDrawnLogits / shape_.vocabulary), parallel_, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const Draw& each = draws[static_cast<size_t>(i)];
      const auto at = static_cast<size_t>(each.row * shape_.vocabulary);
      DrawnToken& drawn = result[static_cast<size_t>(i)];
      drawn = draw(logits_.span().subspan(at, static_cast<size_t>(model_.drawable())), each.draw);
      drawn.cells = each.cells;
    }
  });
  return result;
}

}  // namespace

std::unique_ptr<Generator> make_lm_generator(const LmModel& model, const LmGeneratorOptions& options) {
  return std::make_unique<LmGenerator>(model, options);
}

}  // namespace troupe
