#include "envs/corridor.h"

#include <algorithm>

namespace troupe {

Corridor::Options Corridor::Options::read(EnvParams& params) {
  return {.length = static_cast<int32_t>(params.integer("length", 10, 2, 1000, "positions in the corridor"))};
}

EnvSpec Corridor::spec(const Options& options) {
  EnvSpec spec;
  spec.observations = {{"state", DType::f32, {1}}};
  spec.action.bins = {2};  // one choice of two: left, right
  spec.max_episode_steps = 10 * options.length;
  spec.reports_success = true;
  return spec;
}

void Corridor::reset(Rng& rng) { state.position = static_cast<int32_t>(rng.below(static_cast<uint64_t>(length_ - 1))); }

RowStep Corridor::step(int32_t action, Rng&) {
  state.position = std::max(0, state.position + (action == 1 ? 1 : -1));
  const bool at_door = state.position == length_ - 1;
  return {.reward = at_door ? 1.0f : -0.01f, .terminated = at_door, .success = at_door};
}

void Corridor::observe(RowWriter out) const {
  out.array<float>()[0] = 2.0f * static_cast<float>(state.position) / static_cast<float>(length_ - 1) - 1.0f;
}

std::string Corridor::render() const {
  std::string line(static_cast<size_t>(length_), '.');
  line.back() = 'D';
  line[static_cast<size_t>(state.position)] = '@';
  return line + '\n';
}

}  // namespace troupe
