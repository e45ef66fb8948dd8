// The scan family: GAE and its relatives.

#include "algorithms/gae.h"
#include "python/src/bind.h"

namespace troupe::python {

namespace {

// [T, N] arrays, time-major.
void gae_time_major(const View& rewards, const View& values, const View& next_values, const View& terminated,
                    const View& truncated, float gamma, float lambda, const View& advantages, const View& returns) {
  GaeInput in;
  in.steps = rewards.dim(0);
  in.sequences = rewards.dim(1);
  in.rewards = rewards.in<float>();
  in.values = values.in<float>();
  in.next_values = next_values.in<float>();
  in.terminated = terminated.in<uint8_t>();
  in.truncated = truncated.in<uint8_t>();
  in.gamma = gamma;
  in.lambda = lambda;
  gae(in, advantages.out<float>(), returns.out<float>());
}

}  // namespace

void bind_scan(pybind11::module_& module) { module.def("gae_time_major", &gae_time_major, NoGil()); }

}  // namespace troupe::python
