#pragma once
// Corridor: walk right to the door at the end. The smallest complete environment, the worked example of
// docs/environments.md.

#include "envs/params.h"
#include "envs/row.h"

namespace troupe {

class Corridor {
 public:
  struct Options {
    int32_t length = 10;
    static Options read(EnvParams& params);
  };
  struct State {
    int32_t position = 0;
  };
  State state;

  explicit Corridor(const Options& options) : length_(options.length) {}
  static EnvSpec spec(const Options& options);
  void reset(Rng& rng);
  RowStep step(int32_t action, Rng& rng);
  void observe(RowWriter out) const;
  std::string render() const;

 private:
  int32_t length_;
};

}  // namespace troupe
