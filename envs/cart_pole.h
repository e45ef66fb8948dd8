#pragma once
// CartPole-v1: the task of Barto, Sutton and Anderson (1983) with the numbers of Gymnasium 1.x. A row, see envs/row.h.

#include "envs/batched.h"

namespace troupe {

class CartPole {
 public:
  struct State {
    double x = 0, x_dot = 0, theta = 0, theta_dot = 0;
  };
  State state;

  static EnvSpec spec();
  void reset(Rng& rng);
  RowStep step(int32_t action, Rng& rng);
  void observe(RowWriter out) const;
  std::string render() const;
};

extern template class Batched<CartPole>;

}  // namespace troupe
