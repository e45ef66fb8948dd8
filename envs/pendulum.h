#pragma once
// Pendulum-v1: swing up a pendulum with a weak motor and balance it (constants of Gymnasium 1.x). A
// row class, see envs/row.h.

#include "envs/batched.h"

namespace troupe {

class Pendulum {
 public:
  struct State {
    double theta = 0, speed = 0;
  };  // theta = 0 is upright; theta is not wrapped
  State state;

  static EnvSpec spec();
  void reset(Rng& rng);
  RowStep step(std::span<const float> action, Rng& rng);
  void observe(RowWriter out) const;
  std::string render() const;
};

extern template class Batched<Pendulum>;

}  // namespace troupe
