#pragma once
// GradientSquares: the sums of squares of gradients, from which their norm follows. A plain value.

namespace troupe {

// Of those of the policy, and of the value function or critic.
struct GradientSquares {
  double policy = 0, value = 0;

  GradientSquares& operator+=(const GradientSquares& other) {
    policy += other.policy;
    value += other.value;
    return *this;
  }
  friend bool operator==(const GradientSquares&, const GradientSquares&) = default;
};

}  // namespace troupe
