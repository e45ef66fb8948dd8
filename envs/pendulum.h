#pragma once
// Pendulum-v1: swing a pendulum up and hold it there with a weak motor (Gymnasium 1.x numbers). A row, see envs/row.h.

#include "envs/batched.h"

namespace troupe {

class Pendulum {
 public:
  struct State {
    double theta = 0, speed = 0;
  };  // theta 0 is upright; it is not wrapped
  State state;

  static EnvSpec spec();
  void reset(Rng& rng);
  RowStep step(std::span<const float> action, Rng& rng);
  void observe(RowWriter out) const;
  std::string render() const;
};

extern template class Batched<Pendulum>;

}  // namespace troupe
