#include <cmath>
#include <set>

#include "algorithms/choice/algorithm_choice.h"
#include "models/experience/rollout_units.h"
#include "sim/fakes.h"

namespace troupe::sim {

void World::trouble_forward() {
  if (fault(scenario.forward_slow)) seconds_to_pass += rng.uniform_double() * 3;
  if (fault(scenario.forward_fails)) throw std::runtime_error("a forward failed on purpose");
}

int64_t World::new_observation() {
  transitions.emplace_back();
  return static_cast<int64_t>(transitions.size()) - 1;
}

Transition* World::find(int64_t observation) {
  if (observation <= 0 || observation >= static_cast<int64_t>(transitions.size())) {
    violate("there is no observation " + std::to_string(observation));
    return nullptr;
  }
  return &transitions[static_cast<size_t>(observation)];
}

void World::check_state(int64_t observation, std::span<const float> state, const std::string& who) {
  const Transition* transition = find(observation);
  if (transition == nullptr || transition->before == 0) return;
  if (state[0] != static_cast<float>(transition->before) || state[1] != static_cast<float>(transition->depth))
    violate(who + " for observation " + std::to_string(observation) + " has the state after " +
            std::to_string(static_cast<int64_t>(state[0])) + ", not after " + std::to_string(transition->before));
}

void World::check_use(const SuperBatch& batch) {
  const auto bound = static_cast<uint64_t>(scenario.config.replay.max_policy_lag);
  const bool once = scenario.config.replay.mode == "consume_once";
  const auto limit = once ? 1u : static_cast<uint32_t>(scenario.config.replay.max_reuse);
  uint64_t samples = 0;
  std::set<int64_t> seen;
  const UnitKind kind = unit_kind(scenario.config.replay.draw);
  for (const RolloutUnits& part : batch.parts) {
    const Grid& grid = part.rollout->grid();
    const uint32_t epoch_of_part = part.rollout->epoch;
    const auto ids = grid.observations.at("id").view<int64_t>();
    if (part.kind != kind) violate("the units of a batch do not match replay.draw " + scenario.config.replay.draw);
    for (const int64_t step : steps_of(part)) {
      const auto i = static_cast<size_t>(step);
      if (grid.valid.view<uint8_t>()[i] == 0) {
        if (kind == UnitKind::sample) violate("an invalid step is drawn");
        continue;
      }
      ++samples;
      const auto number = static_cast<uint64_t>(grid.version.view<int64_t>()[i]);
      const std::string who =
          "sample " + std::to_string(ids[2 * i]) + " of version " + PolicyVersion{epoch_of_part, number}.text();
      const uint64_t lag = lag_between({epoch_of_part, number}, {epoch, batch.index});
      if (lag > bound)
        violate(who + " is used by update " + std::to_string(batch.index) + " of epoch " + std::to_string(epoch) +
                ": lag above " + std::to_string(bound));
      Transition* transition = find(ids[2 * i]);
      if (transition == nullptr) return;
      if (!seen.insert(ids[2 * i]).second) violate(who + " occurs twice in a batch");
      if (++transition->uses > limit) violate(who + " is used by more than " + std::to_string(limit) + " updates");
    }
  }
  if (samples != batch.samples)
    violate("a batch of " + std::to_string(samples) + " samples claims to have " + std::to_string(batch.samples));
  const auto wanted = static_cast<uint64_t>(scenario.config.trainer.super_batch / scenario.config.trainer.shards);
  if (samples < wanted) violate("a batch of " + std::to_string(samples) + " samples is smaller than super_batch");
  if (kind == UnitKind::sample && samples > wanted)
    violate("a batch of " + std::to_string(samples) + " single samples is larger than super_batch");
}

namespace {

// GAE as a plain loop in double, directly from the definition (terminated: no bootstrap;
// truncated: bootstrap, no carry).
std::vector<double> gae_oracle(const Grid& r, const AlgorithmConfig& algorithm) {
  const int64_t steps = r.steps(), columns = r.columns();
  std::vector<double> advantages(static_cast<size_t>(steps * columns), 0.0);
  for (int64_t n = 0; n < columns; ++n) {
    double carry = 0;
    for (int64_t t = steps - 1; t >= 0; --t) {
      const auto i = static_cast<size_t>(t * columns + n);
      if (r.valid.view<uint8_t>()[i] == 0) {
        carry = 0;
        continue;
      }
      const bool terminated = r.terminated.view<uint8_t>()[i] != 0, truncated = r.truncated.view<uint8_t>()[i] != 0;
      const bool bootstrap = !terminated && (!truncated || algorithm.bootstrap_on_truncation);
      const double next = bootstrap ? r.next_values.view<float>()[i] : 0.0;
      const double delta = r.rewards.view<float>()[i] + algorithm.gamma * next - r.values.view<float>()[i];
      carry = delta + (terminated || truncated ? 0.0 : algorithm.gamma * algorithm.lambda * carry);
      advantages[i] = carry;
    }
  }
  return advantages;
}

bool close_to(double a, double b) { return std::abs(a - b) <= 1e-4 * (1 + std::abs(a) + std::abs(b)); }

}  // namespace

bool World::is_computed(PolicyVersion version) const {
  const auto all = work.find(version);
  std::set<size_t> shards;
  if (all != work.end())
    for (const auto& [learner, rank] : all->second)
      for (const auto& [shard, batch] : rank.begun)
        if (rank.finished) shards.insert(shard);
  return shards.size() == static_cast<size_t>(scenario.config.trainer.shards);
}

// An inference actor of another process may get new weights later than the one that answered before.
bool World::may_be_behind(int64_t before, int64_t observation) {
  const Transition &first = *find(before), &second = *find(observation);
  return scenario.inference_processes > 0 && (first.asked_again || second.asked_again || first.server != second.server);
}

void World::check_rollout(const Rollout& r, const std::map<uint64_t, bool>& published) {
  const std::string who = "rollout " + std::to_string(r.sequence) + " of worker " + std::to_string(r.worker);
  const Grid& grid = r.grid();
  const int64_t steps = grid.steps(), columns = grid.columns();
  const auto ids = grid.observations.at("id").view<int64_t>();
  const auto flag = [](const Array& array, size_t i) { return array.view<uint8_t>()[i] != 0; };
  if (steps != scenario.config.rollout.length || columns != scenario.config.env.rows)
    return violate(who + " has a wrong shape");
  const RolloutExtras extras = rollout_extras(scenario.config.algorithm);
  if (extras.advantages == grid.advantages.empty() || extras.returns == grid.returns.empty() ||
      grid.policy_parameters.size() != (extras.policy_parameters ? steps * columns * kActions : 0))
    return violate(who + " does not carry the arrays that the algorithm needs");
  uint64_t samples = 0;
  for (int64_t n = 0; n < columns; ++n)
    for (int64_t t = 0; t < steps; ++t) {
      const auto i = static_cast<size_t>(t * columns + n);
      const int64_t id = ids[2 * i];
      const std::string at = who + ", step " + std::to_string(t) + " row " + std::to_string(n) + " (observation " +
                             std::to_string(id) + ")";
      if (ids[2 * i + 1] != ~id) return violate(at + ": mixes two observations");
      Transition* transition = find(id);
      if (transition == nullptr) return;
      if (!transition->stepped) return violate(at + ": never got an action");
      if (transition->arrived) return violate(at + ": arrived before");
      transition->arrived = true;
      if (t > 0) {
        Transition* before = find(ids[2 * (i - static_cast<size_t>(columns))]);
        if (before == nullptr || before->next != id) return violate(at + ": does not follow the step before");
      } else if (const auto it = expected_next.find(id); it != expected_next.end()) {
        expected_next.erase(it);
      } else if (!place.contains(id)) {
        return violate(at + ": does not follow the rollout before");
      }
      if (t + 1 == steps) expected_next[transition->next] = id;
      if (scenario.recurrence.state_size > 0) {
        if (flag(grid.starts, i) != (transition->before == 0))
          return violate(at + ": wrong mark for the start of an episode");
        const int64_t sequence = scenario.recurrence.sequence;
        if (t % sequence == 0)
          check_state(id,
                      grid.chunk_states.view<float>().subspan(static_cast<size_t>(2 * (t / sequence * columns + n)), 2),
                      at);
      }
      const PolicyVersion version{r.epoch, static_cast<uint64_t>(grid.version.view<int64_t>()[i])};
      const bool valid = flag(grid.valid, i);
      if (valid == transition->failed) return violate(at + ": valid and failed disagree");
      if (grid.actions.view<int32_t>()[i] != transition->action) return violate(at + ": not the executed action");
      if (grid.actions.view<int32_t>()[i] != action_of(version, id) ||
          grid.log_probs.view<float>()[i] != log_prob_of(version, id) ||
          grid.values.view<float>()[i] != value_of(version, id))
        return violate(at + ": not the answer of version " + version.text());
      if (extras.policy_parameters) {
        const auto parameters = grid.policy_parameters.view<float>();
        for (size_t k = 0; k < kActions; ++k)
          if (parameters[i * kActions + k] != parameter_of(version, id, k))
            return violate(at + ": policy_parameters are not those of version " + version.text());
      }
      if (!published.contains(version.number))
        return violate(at + ": version " + version.text() + " was never published");
      const size_t earlier = i - static_cast<size_t>(columns);
      if (t > 0 && version.number < static_cast<uint64_t>(grid.version.view<int64_t>()[earlier]) &&
          !may_be_behind(ids[2 * earlier], id))
        return violate(at + ": the version goes backwards");
      if (!valid) continue;
      ++samples;
      if (version.number < r.oldest || version.number > r.newest) return violate(at + ": outside oldest..newest");
      if (grid.rewards.view<float>()[i] != transition->reward) return violate(at + ": wrong reward");
      if (flag(grid.terminated, i) != transition->terminated) return violate(at + ": wrong terminated flag");
      const bool closed = t + 1 < steps && !flag(grid.valid, i + static_cast<size_t>(columns));
      if (flag(grid.truncated, i) != (transition->truncated || (closed && !transition->terminated)))
        return violate(at + ": wrong truncated flag");
      if (transition->terminated) continue;
      bool known = false;
      for (const auto& [number, yes] : published)
        known = known || ((number >= version.number || scenario.inference_processes > 0) &&
                          grid.next_values.view<float>()[i] == value_of({r.epoch, number}, transition->real_next));
      if (!known) return violate(at + ": next_values is not the value of the real next observation");
    }
  if (samples != r.samples || samples != r.env_steps)
    return violate(who + " claims " + std::to_string(r.samples) + " samples but contains " + std::to_string(samples));
  const std::vector<double> advantages = gae_oracle(grid, scenario.config.algorithm);
  for (size_t i = 0; i < advantages.size(); ++i) {
    const double target = flag(grid.valid, i) ? advantages[i] + grid.values.view<float>()[i] : 0.0;
    if (extras.advantages && !close_to(advantages[i], grid.advantages.view<float>()[i]))
      return violate(who + ": advantage " + std::to_string(grid.advantages.view<float>()[i]) + ", expected " +
                     std::to_string(advantages[i]));
    if (extras.returns && !close_to(target, grid.returns.view<float>()[i]))
      return violate(who + ": return " + std::to_string(grid.returns.view<float>()[i]) + ", expected " +
                     std::to_string(target));
  }
  if (!extras.next_observations) {
    if (!grid.last_observations.empty() || !grid.final_observations.empty())
      violate(who + " carries observations that are not needed");
    return;
  }
  const auto last = grid.last_observations.at("id").view<int64_t>();
  for (int64_t n = 0; n < columns; ++n)
    if (last[static_cast<size_t>(2 * n)] != find(ids[static_cast<size_t>(2 * ((steps - 1) * columns + n))])->next)
      return violate(who + ": last_observations are not those after the last step");
  size_t cut_off = 0;
  for (size_t i = 0; i < static_cast<size_t>(steps * columns); ++i) {
    const Transition* transition = find(ids[2 * i]);
    cut_off += transition->truncated && !transition->failed;
  }
  const auto finals = static_cast<size_t>(grid.final_steps.empty() ? 0 : grid.final_steps.dim(0));
  if (finals != cut_off)
    return violate(who + ": " + std::to_string(finals) + " final observations for " + std::to_string(cut_off) +
                   " truncated episodes");
  for (size_t k = 0; k < finals; ++k) {
    const auto where = grid.final_steps.view<int32_t>().subspan(2 * k, 2);
    const auto i = static_cast<size_t>(where[0] * columns + where[1]);
    if (grid.final_observations.at("id").view<int64_t>()[2 * k] != find(ids[2 * i])->real_next)
      return violate(who + ": a final observation is not the real one");
  }
}

}  // namespace troupe::sim
