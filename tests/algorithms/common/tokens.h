#pragma once
// A random batch of tokens for tests of losses.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/common/cpu.h"
#include "algorithms/losses/surrogate.h"
#include "runtime/base/rng.h"

namespace troupe::test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

struct Tokens {
  std::vector<float> log_probs, old_log_probs, advantages;
  std::vector<uint8_t> mask;
  std::vector<int64_t> offsets;
  std::vector<double> sequence_weights;
  std::vector<float> rollout_weights;

  // n tokens in sequences of random lengths, some empty, a third of the tokens masked.
  explicit Tokens(int64_t n, uint64_t seed = 1, float spread = 0.5f) {
    Rng random(derive_key(seed, "tokens"));
    for (int64_t i = 0; i < n; ++i) {
      old_log_probs.push_back(-2 + random.normal());
      log_probs.push_back(old_log_probs.back() + spread * random.normal());
      advantages.push_back(random.below(8) == 0 ? 0.0f : 2 * random.normal());
      mask.push_back(random.below(3) != 0);
    }
    offsets.push_back(0);
    while (offsets.back() < n)
      offsets.push_back(std::min<int64_t>(n, offsets.back() + static_cast<int64_t>(random.below(70))));
    if (offsets.size() > 2) std::fill(mask.begin() + offsets[1], mask.begin() + offsets[2], uint8_t{0});
  }
  // Given log-ratios and advantages, all unmasked, as one sequence; old log-probabilities are 0.
  static Tokens of(const std::vector<double>& ratios, const std::vector<float>& advantages) {
    Tokens tokens(0);
    tokens.advantages = advantages;
    tokens.old_log_probs.assign(ratios.size(), 0.0f);
    for (const double r : ratios) tokens.log_probs.push_back(static_cast<float>(std::log(r)));
    tokens.offsets = {0, static_cast<int64_t>(ratios.size())};
    return tokens;
  }

  int64_t size() const { return static_cast<int64_t>(log_probs.size()); }
  TokenSequences sequences() const { return TokenSequences(std::span<const int64_t>(offsets)); }
  bool live(std::size_t i) const { return mask.empty() || mask[i] != 0; }
  double log_ratio(std::size_t i) const { return log_probs[i] - old_log_probs[i]; }  // rounded, as in the kernel
  double weight(std::size_t i) const { return rollout_weights.empty() ? 1.0 : rollout_weights[i]; }
  SurrogateInput input() const {
    return {log_probs, old_log_probs, advantages, mask, rollout_weights, sequences(), sequence_weights};
  }
};

struct Result {
  std::vector<float> loss, grad;
  SurrogateSums sums;
};

inline Result run(const Surrogate& surrogate, const SurrogateInput& in) {
  Result out{std::vector<float>(in.log_probs.size(), kNaN), std::vector<float>(in.log_probs.size(), kNaN), {}};
  out.sums = surrogate(in, {out.loss, out.grad});
  return out;
}

using Settings = std::vector<std::pair<std::string, ParameterValue>>;

inline Surrogate surrogate_with(std::string_view name, const Settings& settings = {}) {
  Surrogate surrogate = make_surrogate(name);
  for (const auto& [key, value] : settings) surrogate.parameters.set("test", key, value);
  return surrogate;
}

inline Result run_clip(const Tokens& tokens, const Settings& settings = {}, std::string_view name = "clip") {
  return run(surrogate_with(name, settings), tokens.input());
}

// Selects every instruction set in turn, and the automatic choice again at the end.
template <class Body>
void on_every_isa(Body body) {
  for (const Isa isa : available_isas()) {
    force_isa(isa);
    body();
  }
  force_isa(std::nullopt);
}

}  // namespace troupe::test
