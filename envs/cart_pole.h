#pragma once
// CartPole-v1: the task of Barto, Sutton and Anderson (1983) with the constants of Gymnasium 1.x. A
// row class, see envs/row.h.

#include "envs/batched.h"
#include "envs/params.h"

namespace troupe {

class CartPole {
 public:
  struct Options {
    bool velocities = true;  // whether velocities are observed; without them the policy needs memory

    static Options read(EnvParams& params);
  };
  struct State {
    double x = 0, x_dot = 0, theta = 0, theta_dot = 0;
  };
  State state;

  explicit CartPole(const Options& options) : options_(&options) {}
  static EnvSpec spec(const Options& options);
  void reset(Rng& rng);
  RowStep step(int32_t action, Rng& rng);
  void observe(RowWriter out) const;
  std::string render() const;

 private:
  const Options* options_;
};

extern template class Batched<CartPole>;

}  // namespace troupe
