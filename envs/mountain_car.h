#pragma once
// MountainCar-v0 and MountainCarContinuous-v0: drive an underpowered car out of a valley (Moore 1990; constants of
// Gymnasium 1.x, which computes the first in float64 and the second in float32). Row classes, see envs/row.h.

#include "envs/batched.h"

namespace troupe {

class MountainCar {
 public:
  struct State {
    double position = 0, velocity = 0;
  };
  State state;

  static EnvSpec spec();
  void reset(Rng& rng);
  RowStep step(int32_t action, Rng& rng);
  void observe(RowWriter out) const;
  std::string render() const;
};

class MountainCarContinuous {
 public:
  struct State {
    float position = 0, velocity = 0;
  };
  State state;

  static EnvSpec spec();
  void reset(Rng& rng);
  RowStep step(std::span<const float> action, Rng& rng);
  void observe(RowWriter out) const;
  std::string render() const;
};

extern template class Batched<MountainCar>;
extern template class Batched<MountainCarContinuous>;

}  // namespace troupe
