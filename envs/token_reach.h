#pragma once
// TokenReach: move a point in the plane to a target, in eight tasks that differ in dynamics, distance and precision.
// Actions are tokens: two of 256 bins per step (token k means -1 + 2k/255), eight steps per decision. Tasks that failed
// often recently are drawn more often (runtime/base/task_sampler.h). A row class, see envs/row.h.

#include <array>

#include "envs/batched.h"
#include "envs/params.h"
#include "runtime/base/task_sampler.h"

namespace troupe {

class TokenReach {
 public:
  static constexpr int32_t kBins = 256;
  static constexpr int32_t kChunk = 8;
  static constexpr size_t kTasks = 8;
  enum class Sampling : int32_t { failure_weighted, uniform, round_robin };

  struct Task {
    const char* name;
    float gain;               // displacement per step at full action; with drag, change of the displacement
    float drag;               // fraction of the velocity kept per step; 0 = the action is the velocity
    float turn;               // rotation of the action plane, in radians
    float wind;               // added to both coordinates at every step
    float orbit;              // radius of the target's orbit; 0 = the target does not move
    float nearest, farthest;  // distance from the start to the target
    float tolerance;          // distance within which the target is reached
  };
  static const std::array<Task, kTasks>& tasks();

  struct Options {
    Sampling sampling = Sampling::failure_weighted;
    int32_t max_episode_steps = 64;
    static Options read(EnvParams& params);
  };
  struct State {
    float x, y, speed_x, speed_y;     // the point
    float center_x, center_y, phase;  // the target's orbit
    int32_t task, steps, next_task;
  };
  State state{};
  TaskSampler sampler{kTasks};  // outcomes of the last 100 episodes of each task

  explicit TokenReach(const Options& options) : options_(&options) {}
  static EnvSpec spec(const Options& options);
  void begin(uint64_t row);
  void reset(Rng& rng);
  RowStep step(std::span<const int32_t> action, Rng& rng);
  void observe(RowWriter out) const;
  int32_t task() const { return state.task; }
  void save(std::string& bytes) const;
  void load(std::string_view bytes);
  std::string render() const;

 private:
  int32_t draw_task(Rng& rng);
  std::array<float, 2> target() const;
  float distance() const;

  const Options* options_;
};

extern template class Batched<TokenReach>;

}  // namespace troupe
