#pragma once
// Drives an environment in tests: random allowed actions, and the results of a step as comparable bytes.

#include <algorithm>
#include <string>
#include <vector>

#include "envs/make/make_env.h"
#include "runtime/base/rng.h"

namespace troupe::test {

// The environments that conformance_test.cpp covers; each program with that file defines it.
std::vector<std::string> conformance_ids();
// The steps of its longer cases, enough for several episodes.
uint64_t conformance_steps();

// Parameters that make an environment small enough for a test.
inline EnvConfig small_config(const std::string& id, int64_t rows, int64_t chunk = 0) {
  EnvConfig config;
  config.id = id;
  config.rows = rows;
  config.chunk = chunk;
  if (id == "Synthetic") config.params = R"({"image_height": 6, "image_width": 5, "episode_length": 30})";
  if (id.starts_with("mujoco:")) config.params = R"({"max_episode_steps": 60})";
  if (id == "GridWorld") config.params = R"({"size": 5, "slip": 0.1, "max_episode_steps": 30})";
  return config;
}

// Action number `t` of row i; depends only on (i, t) and the row's mask.
inline Array random_actions(const Env& env, const EnvStep& now, uint64_t t, uint64_t first_row = 0) {
  const ActionSpec& spec = env.spec().action;
  Array actions(spec.dtype(), spec.shape().prepended(env.rows()));
  for (int64_t i = 0; i < env.rows(); ++i) {
    Rng rng(derive_key(t, "test action", first_row + static_cast<uint64_t>(i)));
    for (int64_t d = 0; d < spec.decisions(); ++d) {
      const size_t at = static_cast<size_t>(i * spec.decisions() + d), a = static_cast<size_t>(d % spec.dims());
      if (spec.kind == ActionKind::continuous) {
        actions.mutable_view<float>()[at] = rng.uniform(spec.low[a], spec.high[a]);
        continue;
      }
      int32_t& choice = actions.mutable_view<int32_t>()[at];
      do choice = static_cast<int32_t>(rng.below(static_cast<uint64_t>(spec.bins[a])));
      while (spec.masked && !now.action_mask.at(i).view<uint8_t>()[static_cast<size_t>(choice)]);
    }
  }
  return actions;
}

inline void append_bytes(std::string& text, const Array& array) {
  text.append(reinterpret_cast<const char*>(array.data()), array.bytes());
}

// The results of a step for one row; final observations only if the row finished.
inline std::string row_bytes(const EnvStep& step, int64_t i) {
  std::string text;
  for (const auto& [name, array] : step.observations) append_bytes(text, array.at(i));
  if (!step.action_mask.empty()) append_bytes(text, step.action_mask.at(i));
  for (const Array* column :
       {&step.rewards, &step.terminated, &step.truncated, &step.success, &step.executed, &step.failed, &step.task})
    append_bytes(text, column->slice(i, i + 1));
  if (step.terminated.view<uint8_t>()[static_cast<size_t>(i)] || step.truncated.view<uint8_t>()[static_cast<size_t>(i)])
    for (const auto& [name, array] : step.final_observations) append_bytes(text, array.at(i));
  return text;
}

inline std::string all_bytes(const EnvStep& step) {
  std::string text;
  for (int64_t i = 0; i < step.rewards.dim(0); ++i) text += row_bytes(step, i);
  for (const std::string& error : step.errors) text += error;
  return text;
}

// The results of the last step of an episode in row i, which do not depend on what follows.
inline std::string end_bytes(const EnvStep& step, int64_t i) {
  std::string text;
  for (const Array* column :
       {&step.rewards, &step.terminated, &step.truncated, &step.success, &step.executed, &step.failed})
    append_bytes(text, column->slice(i, i + 1));
  for (const auto& [name, array] : step.final_observations) append_bytes(text, array.at(i));
  return text;
}

// Plays the episodes from `first` on in `env`, after play_singly(seed), beside those of `other` after a reset with this
// seed and first row, until all have ended or for so many steps. Returns what differs; empty if nothing does.
inline std::string difference_of_singles(Env& env, Env& other, uint64_t seed, uint64_t first, uint64_t steps) {
  const int64_t rows = env.rows();
  EnvStep one = EnvStep::allocate(env.spec(), rows), all = EnvStep::allocate(env.spec(), rows);
  other.reset(seed, first, all);
  std::ranges::fill(all.failed.mutable_view<uint8_t>(), uint8_t{2});
  for (int64_t i = 0; i < rows; ++i) env.begin_episode(i, first + static_cast<uint64_t>(i));
  env.step(Array(env.spec().action.dtype(), env.spec().action.shape().prepended(rows)), one);
  std::vector<bool> ended(static_cast<size_t>(rows));
  for (uint64_t t = 0; t <= steps; ++t) {
    for (int64_t i = 0; i < rows; ++i) {
      const auto n = static_cast<size_t>(i);
      const std::string at = "row " + std::to_string(i) + " after " + std::to_string(t) + " steps: ";
      if (ended[n] && one.failed.view<uint8_t>()[n] != 2) return at + "not idle after its end";
      if (ended[n]) continue;
      ended[n] = all.terminated.view<uint8_t>()[n] != 0 || all.truncated.view<uint8_t>()[n] != 0;
      if (ended[n] ? end_bytes(one, i) != end_bytes(all, i) : row_bytes(one, i) != row_bytes(all, i))
        return at + (ended[n] ? "another end" : "other results");
    }
    if (!one.errors.empty()) return one.errors.front();
    if (std::ranges::find(ended, false) == ended.end()) return "";
    const Array actions = random_actions(other, all, t, first);
    other.step(actions, all);
    env.step(actions, one);
  }
  return "";
}

inline void fill_bytes(Array& array, int value) {
  std::fill_n(array.mutable_data(), array.bytes(), static_cast<std::byte>(value));
}

// Overwrites every buffer, so that elements that are not written are detected.
inline void scribble(EnvStep& step, int value) {
  for (auto& [name, array] : step.observations) fill_bytes(array, value);
  for (auto& [name, array] : step.final_observations) fill_bytes(array, value);
  for (Array* column : {&step.action_mask, &step.rewards, &step.terminated, &step.truncated, &step.success,
                        &step.executed, &step.failed, &step.task})
    fill_bytes(*column, value);
  step.errors.assign(3, "scribble");
}

}  // namespace troupe::test
