#pragma once
// Estimates of KL(policy || reference) from the log-probabilities of sampled tokens, and controllers for the
// coefficient of a KL penalty. Pure functions and plain values; any thread. Exact KL from logits is in
// algorithms/losses/logprob.h.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Functions of d = log_prob - reference_log_prob, where log_prob belongs to the policy being trained (Schulman 2020,
// "Approximating KL divergence", joschu.net/blog/kl-approx.html).
enum class KlKind : uint8_t {
  k1 = 0,          // d; also "kl"
  abs = 1,         // |d|
  k2 = 2,          // d^2 / 2; also "mse"
  k3 = 3,          // exp(-d) + d - 1
  low_var_kl = 4,  // k3 clamped to +-10, -d to +-20
  full = 5,        // exact, from logits: kl_from_logits()
};

struct KlEstimator {
  KlKind kind = KlKind::k1;
  bool k2_gradient = false;  // names with "+": the value of `kind` with the gradient of k2
};

// Known names: "k1", "kl", "abs", "k2", "mse", "k3", "low_var_kl", "full", and each of them followed
// by "+". Throws ConfigError.
KlEstimator find_kl(std::string_view name, std::string_view path = "algorithm.kl");
// All names that find_kl() accepts, including those with "+".
std::vector<std::string> kl_names();
// The first of several names of the same estimate: "k2+" for "mse+". An unknown name is returned unchanged.
std::string canonical_kl(std::string_view name);

// Writes per token the estimate and its derivative with respect to log_prob (0 where a clamp is active). All
// arrays are [n]; mask may be empty = all; value or grad may be empty = not computed. Both are 0 where
// masked. Not for KlKind::full.
void kl_estimate(KlEstimator estimator, std::span<const float> log_probs, std::span<const float> reference_log_probs,
                 std::span<const uint8_t> mask, std::span<float> value, std::span<float> grad);

// A constant coefficient.
struct FixedKl {
  double value = 0.001;
  void update(double /*current*/, double /*steps*/) {}
};

// A coefficient that follows the measured KL (Ziegler et al. 2019, arXiv:1909.08593, section 2.2). With e =
// clip(current / target - 1, +-0.2), an update multiplies it by 1 + e * steps / horizon. `steps` are sequences;
// `current` has the same unit as `target`.
class AdaptiveKl {
 public:
  // Throws ConfigError unless value >= 0, target > 0 and horizon > 0.
  AdaptiveKl(double value, double target, double horizon);
  // Sets the coefficient for the next batch. Throws ConfigError when steps < 0, when 0.2 * steps >= horizon (the sign
  // could flip) or when current is not finite.
  void update(double current, double steps);
  double value() const { return value_; }
  double target() const { return target_; }
  double horizon() const { return horizon_; }

 private:
  double value_, target_, horizon_;
};

}  // namespace troupe
