#include "models/learning/answers/micro_batch_choice.h"

#include <algorithm>
#include <limits>

#include "models/decoder/activation_bytes.h"
#include "runtime/base/text_format.h"

namespace troupe {
namespace {

constexpr int64_t kLeastBudget = int64_t{128} << 20;  // bytes
// With fewer tokens a pass reads weights and gradients for too little work; computing the layers twice costs less.
constexpr int64_t kLeastTokens = 256;
constexpr double kMostBytes = 1e18;  // that are reported: an integer cannot hold every product
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

}  // namespace

int64_t activation_budget(const LmShape& shape) {
  return std::max(kLeastBudget, lm_parameter_count(shape) * static_cast<int64_t>(sizeof(float)) / 2);
}

MicroBatchChoice choose_micro_batch(const LmShape& shape, const TrainerConfig& config, const MicroBatchNeeds& needs) {
  const auto fitting = [&, budget = activation_budget(shape)](bool recompute) {
    return budget / activation_bytes(shape, recompute);
  };
  const bool on = config.recompute == "on", off = config.recompute == "off";
  MicroBatchChoice choice;
  choice.recompute_above = on ? 0 : off ? kNever : fitting(false);
  if (needs.whole_minibatch) return choice;
  const int64_t chosen = fitting(on || choice.recompute_above < kLeastTokens);
  choice.tokens = config.micro_batch_tokens > 0 ? config.micro_batch_tokens : std::max(chosen, needs.longest);
  choice.recompute = choice.tokens > choice.recompute_above;
  const double bytes =
      static_cast<double>(choice.tokens) * static_cast<double>(activation_bytes(shape, choice.recompute));
  choice.bytes = static_cast<int64_t>(std::min(bytes, kMostBytes));
  return choice;
}

std::string text_of(const MicroBatchChoice& choice, int64_t largest, bool recompute) {
  if (choice.tokens == 0) return "no micro-batches: the loss compares all tokens of a minibatch";
  return "micro-batches of up to " + format_counted(static_cast<uint64_t>(largest), "token") +
         (largest < choice.tokens ? ", of " + format_count(static_cast<uint64_t>(choice.tokens)) + " that are allowed"
                                  : "") +
         (recompute ? ", whose activations are recomputed in the backward pass" : "");
}

}  // namespace troupe
