#pragma once
// Head: turns the outputs of a policy network into actions, log-probabilities, entropies and their gradients, for every
// kind of action space. Plain loops on host arrays, no tensor library. Const after construction, so any thread. A
// trainer on another device evaluates actions with DeviceHead (models/torch/learning/device_head.h).
//
// Letters: B samples (where the policy acts, one of each row that asks), K steps of an action chunk, A action
// dimensions, D = K * A decisions, M mask entries, P outputs. Discrete kinds: the outputs are logits, decision after
// decision (step, then dimension), each with its own number of bins. Continuous: the outputs are the D means of a
// diagonal Gaussian whose log_std does not depend on the state.

#include <cstdint>
#include <span>
#include <vector>

#include "envs/env.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

// An output of a network is not finite: its weights are damaged or too large.
class NotFinite : public InvariantError {
 public:
  using InvariantError::InvariantError;
};

// The network's outputs for B samples.
struct HeadInput {
  int64_t samples = 0;
  std::span<const float> outputs;  // [B, P]
  std::span<const float> log_std;  // [D]; empty unless continuous
  std::span<const uint8_t> mask;   // [B, M]; empty unless the action space is masked
  // [B] decisions of each sample that were executed, from the first on; empty = all. The others, planned steps of a
  // chunk that the end of the episode cut off, have log-probability, entropy and gradients 0, whatever is stored for
  // them. sample() ignores it.
  std::span<const int32_t> executed = {};
};

// Actions of either type, [B, D]; the other span is empty.
struct ActionsView {
  std::span<const int32_t> discrete;
  std::span<const float> continuous;
};
struct MutableActionsView {
  std::span<int32_t> discrete;
  std::span<float> continuous;
};

// What evaluate() keeps for backward(); its buffers are reused from call to call.
struct HeadScratch {
  std::vector<float> probabilities;       // [B, P] discrete kinds
  std::vector<float> log_normalizers;     // [B, D] discrete kinds: log of the sum of exp(logits)
  std::vector<float> decision_entropies;  // [B, D] discrete kinds
};

class Head {
 public:
  // Where the logits of a decision are.
  struct Decision {
    int64_t first;  // among a sample's outputs
    int64_t bins;
  };

  explicit Head(const ActionSpec& action);

  int64_t outputs() const { return outputs_; }      // P
  int64_t decisions() const { return decisions_; }  // D
  int64_t mask_size() const { return mask_size_; }  // M, or 0 when not masked
  bool continuous() const { return continuous_; }
  // Numbers that describe the distributions over one sample's actions: its logits, or its means and then its log
  // standard deviations.
  int64_t parameter_count() const { return continuous_ ? 2 * decisions_ : outputs_; }
  const std::vector<Decision>& layout() const { return layout_; }  // [D] discrete kinds

  // One action per sample. Sample i draws only from Rng(seeds[i]), so it does not depend on the samples beside it; a
  // sample whose `deterministic` is 1 takes the most likely action. log_probs is [B, D], of the actions taken. Throws
  // NotFinite naming the sample when an output is not finite, and InvariantError when a decision has no allowed action.
  void sample(const HeadInput& input, std::span<const int64_t> seeds, std::span<const uint8_t> deterministic,
              MutableActionsView actions, std::span<float> log_probs) const;
  // The same of decision `decision` alone, of a discrete kind, with the bits of sample(): reads its outputs, which are
  // the only ones that are checked, and writes its action and log-probability of each sample. All decisions one after
  // another cost what one sample() costs.
  void sample_decision(const HeadInput& input, int64_t decision, std::span<const int64_t> seeds,
                       std::span<const uint8_t> deterministic, std::span<int32_t> actions,
                       std::span<float> log_probs) const;

  // log_probs [B, D] of given actions and the entropy [B] of each sample. Throws as sample() does, and on an action
  // that is out of range or masked.
  void evaluate(const HeadInput& input, ActionsView actions, std::span<float> log_probs, std::span<float> entropy,
                HeadScratch& scratch) const;

  // The sum over its categories of their squared probabilities, of each decision of the samples last evaluated: [B, D],
  // 0 where it was not executed. Not for continuous actions.
  void sum_squared_probabilities(const HeadScratch& scratch, std::span<float> out) const;

  // The gradients of a loss after evaluate() of the same samples: from dL/dlog_probs [B, D] and dL/dentropy (the same
  // for every sample) to dL/doutputs [B, P] (written) and dL/dlog_std [D] (added to; empty unless continuous).
  void backward(const HeadInput& input, ActionsView actions, std::span<const float> log_prob_gradients,
                float entropy_gradient, const HeadScratch& scratch, std::span<float> output_gradients,
                std::span<float> log_std_gradients) const;

  // Writes those numbers, [B, parameter_count()].
  void parameters(const HeadInput& input, std::span<float> out) const;

  // The closed form of KL(old || policy) of each decision, [B, D], 0 where it was not executed. `old` are the
  // parameters of the other policy; both have the mask of `input`, and masked categories add nothing.
  void kl(const HeadInput& input, std::span<const float> old, std::span<float> out) const;

  // Adds the gradients of the sum of weights [B, D] times those divergences: to dL/doutputs [B, P] and dL/dlog_std [D].
  void add_kl_gradients(const HeadInput& input, std::span<const float> old, std::span<const float> weights,
                        std::span<float> output_gradients, std::span<float> log_std_gradients) const;

 private:
  void check(const HeadInput& input) const;
  int64_t executed(const HeadInput& input, int64_t sample) const;
  void check_sampling(const HeadInput& input, std::span<const int64_t> seeds, std::span<const uint8_t> deterministic,
                      size_t actions, size_t log_probs) const;
  void check_sample(const HeadInput& input, int64_t sample) const;
  void check_outputs(const HeadInput& input, int64_t sample, int64_t first, int64_t count) const;
  template <class F>
  void for_each_decision(const HeadInput& input, std::span<const float> old, F f) const;
  // `weights`: scratch of at least the decision's bins.
  void draw_decision(const HeadInput& input, int64_t sample, int64_t decision, bool deterministic, Rng& rng,
                     int32_t& action, float& log_prob, std::span<float> weights) const;
  void sample_continuous(const HeadInput& input, int64_t sample, Rng& rng, bool deterministic, float* actions,
                         float* log_probs) const;

  bool continuous_;
  int64_t outputs_ = 0;
  int64_t decisions_ = 0;
  int64_t mask_size_ = 0;
  std::vector<Decision> layout_;  // [D] discrete kinds
  int64_t most_bins_ = 0;         // of a decision
};

// The first row of a [rows, width] block that holds NaN or infinity, or -1.
int64_t first_non_finite_row(std::span<const float> values, int64_t rows);

}  // namespace troupe
