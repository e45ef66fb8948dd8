#include "sim/kinds.h"

#include <algorithm>
#include <numeric>

#include "models/experience/rollout_units.h"

namespace troupe::sim {
namespace {

uint64_t valid_steps(const Rollout& rollout) {
  const auto valid = rollout.grid().valid.view<uint8_t>();
  return std::accumulate(valid.begin(), valid.end(), uint64_t{0});
}

uint64_t none(const Rollout& /*rollout*/) { return 0; }

void check_steps(World& world, const Rollout& rollout, const std::map<uint64_t, bool>& published) {
  world.check_rollout(rollout, published);
}

void check_step_use(World& world, const SuperBatch& batch) { world.check_use(batch); }

std::vector<bool*> trained_steps(World& world, const RolloutUnits& part, uint64_t /*index*/) {
  std::vector<bool*> result;
  for (const int64_t step : steps_of(part)) {
    const auto i = static_cast<size_t>(step);
    if (part.rollout->grid().valid.view<uint8_t>()[i] == 0) continue;
    if (Transition* transition = world.find(part.rollout->grid().observations.at("id").view<int64_t>()[2 * i]))
      result.push_back(&transition->trained);
  }
  return result;
}

void ignore(World& /*world*/, const InferenceRequest& /*request*/, uint64_t /*process*/) {}

uint64_t answers(const Rollout& rollout) { return static_cast<uint64_t>(rollout.answers().count()); }

uint64_t equal_answers(const Rollout& rollout) {
  const auto rewards = rollout.answers().rewards.view<float>();
  const bool equal = std::ranges::all_of(rewards, [&](float reward) { return reward == rewards.front(); });
  return equal ? rewards.size() : 0;
}

std::vector<bool*> trained_answers(World& world, const RolloutUnits& part, uint64_t index) {
  std::vector<bool*> result;
  for (DrawnRecord* record : answers_of(world, part))
    if (record->newest.number >= least_version(world, index)) result.push_back(&record->trained);
  return result;
}

// In the order of Experience.
constexpr SimulatedKind kKinds[] = {
    {.samples = valid_steps,
     .without_spread = none,
     .check_rollout = check_steps,
     .check_use = check_step_use,
     .trained = trained_steps,
     .note_request = ignore,
     .workers_count_produced = false,
     .requests_may_wait = true},
    {.samples = answers,
     .without_spread = equal_answers,
     .check_rollout = check_answers,
     .check_use = check_answer_use,
     .trained = trained_answers,
     .note_request = note_request,
     .workers_count_produced = true,
     .requests_may_wait = false},
};

}  // namespace

const SimulatedKind& simulated_kind(const World& world) {
  return entry_of(kKinds, experience_of(world.scenario.config));
}

}  // namespace troupe::sim
