#pragma once
// Acrobot-v1: swing up a two-link arm with a motor between the links (Sutton and Barto 2018, "Reinforcement Learning:
// An Introduction"; constants of Gymnasium 1.x). A row class, see envs/row.h.

#include "envs/batched.h"

namespace troupe {

class Acrobot {
 public:
  struct State {
    double theta1 = 0, theta2 = 0, speed1 = 0, speed2 = 0;
  };
  State state;

  static EnvSpec spec();
  void reset(Rng& rng);
  RowStep step(int32_t action, Rng& rng);
  void observe(RowWriter out) const;
  std::string render() const;
};

extern template class Batched<Acrobot>;

}  // namespace troupe
