#pragma once
// Action heads with random outputs.

#include <numeric>
#include <vector>

#include "models/heads/heads.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe::test {

inline ActionSpec discrete(std::vector<int32_t> bins, int32_t chunk = 1, bool masked = false) {
  ActionSpec spec;
  spec.kind = bins.size() == 1 ? ActionKind::discrete : ActionKind::multi_discrete;
  spec.bins = std::move(bins);
  spec.chunk = chunk;
  spec.masked = masked;
  return spec;
}

inline ActionSpec continuous(int dims) {
  ActionSpec spec;
  spec.kind = ActionKind::continuous;
  spec.low.assign(dims, -1.0f);
  spec.high.assign(dims, 1.0f);
  return spec;
}

inline std::vector<float> random_floats(size_t count, uint64_t seed, float scale = 1.0f) {
  Rng rng(seed);
  std::vector<float> result(count);
  for (float& x : result) x = scale * rng.normal();
  return result;
}

// A head with the inputs and outputs of its functions, for B samples.
struct RandomHead {
  Head head;
  int64_t samples;
  std::vector<float> outputs, log_std, log_probs, entropy;
  std::vector<uint8_t> mask;
  std::vector<int32_t> executed;  // empty = all
  std::vector<int32_t> discrete_actions;
  std::vector<float> continuous_actions;
  std::vector<int64_t> seeds;
  std::vector<uint8_t> deterministic;
  HeadScratch scratch;

  RandomHead(const ActionSpec& spec, int64_t samples)
      : head(spec),
        samples(samples),
        outputs(random_floats(samples * head.outputs(), 7)),
        log_probs(samples * head.decisions()),
        entropy(samples),
        seeds(samples),
        deterministic(samples, 0) {
    std::iota(seeds.begin(), seeds.end(), 100);
    if (head.continuous()) {
      log_std = random_floats(head.decisions(), 8, 0.3f);
      continuous_actions.resize(log_probs.size());
    } else {
      discrete_actions.resize(log_probs.size());
    }
    mask.assign(samples * head.mask_size(), 1);
  }
  HeadInput input() const { return {samples, outputs, log_std, mask, executed}; }
  ActionsView actions() const { return {discrete_actions, continuous_actions}; }
  void sample() { head.sample(input(), seeds, deterministic, {discrete_actions, continuous_actions}, log_probs); }
  void evaluate() { head.evaluate(input(), actions(), log_probs, entropy, scratch); }
  // sum_i weights[i] * log_probs[i] + entropy_weight * sum_b entropy[b], in double.
  double objective(const std::vector<float>& weights, double entropy_weight) {
    evaluate();
    double result = 0;
    for (size_t i = 0; i < weights.size(); ++i) result += static_cast<double>(weights[i]) * log_probs[i];
    for (float h : entropy) result += entropy_weight * h;
    return result;
  }
};

}  // namespace troupe::test
