// Steps per second of an environment through the Env interface on one thread. Not part of a normal build:
//   ninja -C build/release bench_envs && build/release/bench_envs [ENV_ID [ROWS [PARAMS]]]
// Without an id it measures all of them.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "envs/make/make_env.h"
#include "runtime/base/rng.h"

using namespace troupe;

namespace {

Array random_actions(const ActionSpec& spec, const EnvStep& now, int64_t rows, Rng& rng) {
  Array actions(spec.dtype(), spec.shape().prepended(rows));
  const size_t dims = static_cast<size_t>(spec.dims());
  for (size_t i = 0; i < static_cast<size_t>(actions.size()); ++i) {
    if (spec.kind == ActionKind::continuous) {
      actions.mutable_view<float>()[i] = rng.uniform(spec.low[i % dims], spec.high[i % dims]);
    } else {
      int32_t& choice = actions.mutable_view<int32_t>()[i];
      const size_t bins = static_cast<size_t>(spec.bins[i % dims]);
      choice = static_cast<int32_t>(rng.below(bins));
      while (spec.masked && !now.action_mask.view<uint8_t>()[i * bins + static_cast<size_t>(choice)])
        choice = static_cast<int32_t>(rng.below(bins));
    }
  }
  return actions;
}

// Processor time of this thread, so that other processes do not count.
double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Environment steps per second of env->step() alone: the best of several measurements.
double steps_per_second(const EnvConfig& config) {
  constexpr int kStretches = 7;
  constexpr double kSeconds = 0.1;
  const auto env = make_env(config);
  const ActionSpec& spec = env->spec().action;
  const size_t block = spec.masked ? 1 : 64;  // steps whose actions can be drawn in advance
  EnvStep step = EnvStep::allocate(env->spec(), config.rows);
  env->reset(1, 0, step);
  Rng rng(1);
  std::vector<Array> actions(block);
  double best = 0;
  for (int stretch = 0; stretch < kStretches; ++stretch) {
    double spent = 0, executed = 0;
    while (spent < kSeconds) {
      for (Array& action : actions) action = random_actions(spec, step, config.rows, rng);
      const double start = thread_seconds();
      for (const Array& action : actions) {
        env->step(action, step);
        for (const int32_t count : step.executed.view<int32_t>()) executed += count;
      }
      spent += thread_seconds() - start;
    }
    best = std::max(best, executed / spent);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  for (const EnvInfo& info : list_environments()) {
    EnvConfig config;
    config.id = info.id;
    config.rows = argc > 2 ? std::atoll(argv[2]) : 64;
    if (argc > 3) config.params = argv[3];
    if (argc > 1 && info.id != argv[1]) continue;
    if (!info.error.empty()) {
      std::fprintf(stderr, "%s\n", info.error.c_str());
      continue;
    }
    std::printf("%-26s %10.3f million steps/s, %lld rows\n", info.id.c_str(), steps_per_second(config) / 1e6,
                static_cast<long long>(config.rows));
  }
}
