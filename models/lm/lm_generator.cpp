#include "models/lm/lm_generator.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "algorithms/losses/logprob.h"
#include "models/lm/decoder.h"
#include "models/lm/lm_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

class LmGenerator final : public Generator {
 public:
  LmGenerator(const LmShape& shape, const LmGeneratorOptions& options);

  std::shared_ptr<const Signature> signature() const override { return weights_.signature(); }
  void load(const WeightSnapshot& weights) override;
  int64_t prompt_slots() const override { return options_.prompt_slots; }
  int64_t answer_slots() const override { return options_.answer_slots; }
  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override;

 private:
  LmSequence place(const GeneratorPart& part) const;
  DrawnToken draw(std::span<const float> logits, const TokenDraw& draw) const;

  LmShape shape_;
  LmGeneratorOptions options_;
  WeightBlock weights_;
  ParallelFor parallel_;
  Decoder decoder_;
  KvStore store_;
  bool loaded_ = false;
  FloatBuffer hidden_, rows_, logits_;
  std::vector<int32_t> ids_;
  std::vector<LmSequence> sequences_;
};

LmGenerator::LmGenerator(const LmShape& shape, const LmGeneratorOptions& options)
    : shape_(shape),
      options_(options),
      weights_(lm_signature(shape)),
      parallel_(options.threads),
      decoder_(shape, parallel_),
      store_(shape, options.prompt_slots * options.prompt_tokens + options.answer_slots * options.answer_tokens) {
  if (options.prompt_tokens + options.answer_tokens > shape.max_positions)
    throw ConfigError("a prompt of " + std::to_string(options.prompt_tokens) + " tokens and an answer of " +
                      std::to_string(options.answer_tokens) + " exceed the model's " +
                      std::to_string(shape.max_positions) + " positions");
}

void LmGenerator::load(const WeightSnapshot& weights) {
  weights_.load(weights);
  decoder_.load(decoder_weights(shape_, weights_));
  loaded_ = true;
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

// Draws by inverting the cumulative distribution in the order of the ids, in double precision.
DrawnToken LmGenerator::draw(std::span<const float> logits, const TokenDraw& draw) const {
  const auto vocabulary = static_cast<int64_t>(logits.size());
  const LogitRows<float> row{logits.data(), 1, vocabulary, vocabulary};
  SoftmaxRow softmax;
  log_probs_entropy<float>(row, {}, options_.temperature, {}, {}, {&softmax, 1});
  if (!std::isfinite(softmax.sum) || !std::isfinite(softmax.max))
    throw std::runtime_error("the model's logits are not finite");
  int64_t chosen = std::ranges::max_element(logits) - logits.begin();
  if (!draw.greedy) {
    const double aim = Rng(derive_key(draw.key, "token", static_cast<uint64_t>(draw.index))).uniform_double();
    double below = 0;
    int64_t last = chosen;  // of those with a probability above 0
    for (int64_t i = 0; i < vocabulary; ++i) {
      const double p =
          std::exp((static_cast<double>(logits[static_cast<size_t>(i)]) - softmax.max) / options_.temperature) /
          softmax.sum;
      if (p > 0) last = i;
      below += p;
      if (below > aim) break;
    }
    chosen = last;
  }
  DrawnToken result{static_cast<int32_t>(chosen), 0};
  log_probs_entropy<float>(row, {&chosen, 1}, options_.temperature, {&result.log_prob, 1}, {}, {});
  return result;
}

std::vector<DrawnToken> LmGenerator::compute(std::span<const GeneratorPart> parts) {
  TROUPE_CHECK(loaded_, "load() comes first");
  ids_.clear();
  sequences_.clear();
  for (const GeneratorPart& part : parts) {
    sequences_.push_back(place(part));
    ids_.insert(ids_.end(), part.tokens.begin(), part.tokens.end());
  }
  const auto tokens = static_cast<int64_t>(ids_.size());
  hidden_.resize(tokens * shape_.hidden);
  decoder_.forward({ids_, sequences_}, store_, hidden_.span());

  int64_t drawing = 0, last = 0;
  rows_.resize(static_cast<int64_t>(parts.size()) * shape_.hidden);
  for (const GeneratorPart& part : parts) {
    last += static_cast<int64_t>(part.tokens.size());
    if (part.draws.empty()) continue;
    std::copy_n(hidden_.data() + (last - 1) * shape_.hidden, shape_.hidden, rows_.data() + drawing * shape_.hidden);
    ++drawing;
  }
  logits_.resize(drawing * shape_.vocabulary);
  if (drawing > 0) decoder_.logits(rows_.span().first(static_cast<size_t>(drawing * shape_.hidden)), logits_.span());

  std::vector<DrawnToken> result;
  int64_t row = 0;
  for (const GeneratorPart& part : parts) {
    if (part.draws.empty()) continue;
    const auto logits =
        logits_.span().subspan(static_cast<size_t>(row * shape_.vocabulary), static_cast<size_t>(shape_.vocabulary));
    for (const TokenDraw& each : part.draws) result.push_back(draw(logits, each));
    ++row;
  }
  return result;
}

}  // namespace

std::unique_ptr<Generator> make_lm_generator(const LmShape& shape, const LmGeneratorOptions& options) {
  return std::make_unique<LmGenerator>(shape, options);
}

}  // namespace troupe
