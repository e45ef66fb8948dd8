#include "sim/fakes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "algorithms/choice/algorithm_choice.h"
#include "sim/kinds.h"

namespace troupe::sim {

namespace {

float unit(uint64_t bits) {
  return static_cast<float>(static_cast<double>(bits >> 40) / static_cast<double>(1 << 23) - 1.0);
}

uint64_t hash_of(PolicyVersion version, int64_t observation, uint64_t what) {
  return mix(mix(version.epoch, version.number), mix(static_cast<uint64_t>(observation), what));
}

// The observation numbers in a block of observations. Reports a row that mixes two observations.
std::vector<int64_t> numbers(World& world, const Arrays& observations) {
  const auto values = observations.at("id").view<int64_t>();
  std::vector<int64_t> result;
  for (size_t i = 0; i + 1 < values.size(); i += 2) {
    if (values[i] != ~values[i + 1]) world.violate("a row mixes two observations");
    result.push_back(values[i]);
  }
  return result;
}

class FakePolicy final : public Policy {
 public:
  explicit FakePolicy(World& world) : world_(world), signature_(fake_signature()) {}
  std::shared_ptr<const Signature> signature() const override { return signature_; }

  void load(const WeightSnapshot& weights) override {
    if (world_.running_kind == "inference" && world_.fault(world_.scenario.load_fails))
      throw std::runtime_error("no memory for the weights");
    check_weights(world_, weights);
    version_ = weights.version;
  }

  ActOutput act(const ActInput& input) override {
    const std::vector<int64_t> ids = numbers(world_, input.observations);
    const auto rows = static_cast<int64_t>(ids.size());
    const bool evaluates = world_.running_kind == "evaluation";
    for (const uint8_t flag : input.deterministic.view<uint8_t>())
      if ((flag != 0) != evaluates)
        world_.violate("the kind of action requested for a row is not the one that its client needs");
    if (!evaluates) trouble(rows);
    if (evaluates) world_.last_evaluated = version_;
    ActOutput out{Array(DType::i32, {rows, 1, 1}), Array(DType::f32, {rows, 1}), Array(DType::f32, {rows})};
    for (size_t i = 0; i < ids.size(); ++i) {
      if (Transition* transition = world_.find(ids[i]); !evaluates && transition != nullptr)
        transition->asked_again |= std::exchange(transition->server, world_.running) != 0;
      out.actions.mutable_view<int32_t>()[i] = action_of(version_, ids[i]);
      out.log_probs.mutable_view<float>()[i] = log_prob_of(version_, ids[i]);
      out.values.mutable_view<float>()[i] = value_of(version_, ids[i]);
    }
    if (world_.scenario.recurrence.state_size > 0) out.state = next_state(input, ids);
    const bool carried = rollout_extras(world_.scenario.config.algorithm).policy_parameters;
    if (input.with_parameters != (carried && !evaluates))
      world_.violate("policy parameters are requested although not needed, or the reverse");
    if (input.with_parameters) out.policy_parameters = parameters(ids);
    return out;
  }

  using Policy::values;
  Array values(const Arrays& observations, const Array& state) override {
    const std::vector<int64_t> ids = numbers(world_, observations);
    check_states(ids, state, {}, "a value");
    trouble(static_cast<int64_t>(ids.size()));
    Array out(DType::f32, {static_cast<int64_t>(ids.size())});
    for (size_t i = 0; i < ids.size(); ++i) out.mutable_view<float>()[i] = value_of(version_, ids[i]);
    return out;
  }

 private:
  Array parameters(const std::vector<int64_t>& ids) const {
    Array result(DType::f32, {static_cast<int64_t>(ids.size()), kActions});
    const auto all = result.mutable_view<float>();
    for (size_t i = 0; i < all.size(); ++i) all[i] = parameter_of(version_, ids[i / kActions], i % kActions);
    return result;
  }

  // The state contains the previous observation of the episode, and the number of earlier ones.
  Array next_state(const ActInput& input, const std::vector<int64_t>& ids) {
    check_states(ids, input.state, input.starts, "an action");
    Array state(DType::f32, {static_cast<int64_t>(ids.size()), 2});
    for (size_t i = 0; i < ids.size(); ++i) {
      const Transition* transition = world_.find(ids[i]);
      if (transition == nullptr) continue;
      state.mutable_view<float>()[2 * i] = static_cast<float>(ids[i]);
      state.mutable_view<float>()[2 * i + 1] = static_cast<float>(transition->depth + 1);
    }
    return state;
  }

  void check_states(const std::vector<int64_t>& ids, const Array& state, const Array& starts, const std::string& what) {
    const auto rows = static_cast<int64_t>(ids.size());
    if (world_.scenario.recurrence.state_size == 0) {
      if (!state.empty() || !starts.empty())
        world_.violate(what + " has a recurrent state although the model is not recurrent");
      return;
    }
    if (!(state.shape() == Shape{rows, 2}))
      return world_.violate(what + " has a state of shape " + state.shape().text());
    for (size_t i = 0; i < ids.size(); ++i) {
      const Transition* transition = world_.find(ids[i]);
      if (transition == nullptr) return;
      if (!starts.empty() && (starts.view<uint8_t>()[i] != 0) != (transition->before == 0))
        world_.violate(what + " for observation " + std::to_string(ids[i]) +
                       " has a wrong mark for the start of an episode");
      world_.check_state(ids[i], state.view<float>().subspan(2 * i, 2), what);
    }
  }

  void trouble(int64_t rows) {
    if (rows > world_.scenario.config.inference.max_batch)
      world_.violate("a forward of " + std::to_string(rows) + " rows exceeds max_batch " +
                     std::to_string(world_.scenario.config.inference.max_batch));
    world_.trouble_forward();
  }

  World& world_;
  std::shared_ptr<const Signature> signature_;
  PolicyVersion version_;
};

}  // namespace

float value_of(PolicyVersion version, int64_t observation) { return unit(hash_of(version, observation, 1)); }
float log_prob_of(PolicyVersion version, int64_t observation) { return unit(hash_of(version, observation, 2)) - 1.0f; }
int32_t action_of(PolicyVersion version, int64_t observation) {
  return static_cast<int32_t>(hash_of(version, observation, 3) % static_cast<uint64_t>(kActions));
}

float parameter_of(PolicyVersion version, int64_t observation, size_t index) {
  return unit(hash_of(version, observation, 4 + index));
}

EnvSpec fake_spec() {
  EnvSpec spec;
  spec.id = "Simulated";
  spec.observations = {{"id", DType::i64, {2}}};
  spec.action.bins = {kActions};
  return spec;
}

FakeEnv::FakeEnv(World& world, int64_t rows)
    : world_(world),
      spec_(fake_spec()),
      counts_(world.running_kind == "worker"),
      current_(static_cast<size_t>(rows)),
      active_(static_cast<size_t>(rows), true),
      broken_(static_cast<size_t>(rows), false),
      failures_(static_cast<size_t>(rows), 0) {
  ++world.environments;
  if (!counts_ || world.scenario.row_broken == 0) return;
  for (size_t n = 0; n < broken_.size(); ++n) broken_[n] = world.fault(world.scenario.row_broken);
}

void FakeEnv::set_active(int64_t row, bool active) {
  const int64_t failures = failures_.at(static_cast<size_t>(row));
  if (active && failures >= world_.scenario.config.workers.quarantine_after)
    world_.violate("a row is active again after " + std::to_string(failures) +
                   " consecutive failures, but it is quarantined");
  active_.at(static_cast<size_t>(row)) = active;
}

void FakeEnv::write(Arrays& arrays, int64_t row, int64_t observation) const {
  const auto ids = arrays.at("id").mutable_view<int64_t>();
  ids[static_cast<size_t>(2 * row)] = observation;
  ids[static_cast<size_t>(2 * row + 1)] = ~observation;
}

void FakeEnv::observe(EnvStep& out) {
  for (Array* array :
       {&out.rewards, &out.terminated, &out.truncated, &out.success, &out.executed, &out.failed, &out.task})
    std::memset(array->mutable_data(), 0, array->bytes());
  out.errors.clear();
  for (int64_t n = 0; n < rows(); ++n) write(out.observations, n, current_[static_cast<size_t>(n)]);
}

void FakeEnv::reset(uint64_t seed, uint64_t, EnvStep& out) {
  world_.reset_seeds.push_back(seed);
  active_.assign(active_.size(), true);
  for (size_t n = 0; n < current_.size(); ++n) {
    current_[n] = world_.new_observation();
    world_.place[current_[n]] = {world_.environments, static_cast<int64_t>(n)};
  }
  observe(out);
}

void FakeEnv::step_row(size_t n, int32_t action, EnvStep& out) {
  const int64_t id = current_[n];
  const int64_t next = world_.new_observation();
  const int64_t final_id = world_.new_observation();
  Transition& transition = world_.transitions[static_cast<size_t>(id)];
  if (transition.stepped) world_.violate("observation " + std::to_string(id) + " got two actions");
  transition.stepped = true;
  transition.action = action;
  transition.next = transition.real_next = next;
  current_[n] = next;
  write(out.observations, static_cast<int64_t>(n), next);
  if (!active_[n] || broken_[n] || (counts_ && world_.fault(world_.scenario.row_fails))) {
    transition.failed = true;
    const bool idle = !active_[n] || (!broken_[n] && world_.rng.below(3) == 0);
    failures_[n] += !idle;
    out.failed.mutable_view<uint8_t>()[n] = static_cast<uint8_t>(idle ? Failed::idle : Failed::now);
    if (!idle) out.errors.push_back("row " + std::to_string(n) + " failed on purpose");
    return;
  }
  failures_[n] = 0;
  const uint64_t fate = world_.rng.below(8);
  transition.reward = world_.rng.uniform(-1.0f, 1.0f);
  transition.terminated = fate == 0;
  transition.truncated = fate == 1;
  const int64_t led_to = fate <= 1 ? final_id : next;  // the next observation of the same episode
  world_.transitions[static_cast<size_t>(led_to)].before = id;
  world_.transitions[static_cast<size_t>(led_to)].depth = transition.depth + 1;
  if (fate <= 1) {
    transition.real_next = final_id;
    const bool wrong = world_.scenario.mutation == Mutation::final_observation_reset;
    write(out.final_observations, static_cast<int64_t>(n), wrong ? next : final_id);
  }
  world_.produced += counts_;
  out.rewards.mutable_view<float>()[n] = transition.reward;
  out.terminated.mutable_view<uint8_t>()[n] = transition.terminated;
  out.truncated.mutable_view<uint8_t>()[n] = transition.truncated;
  out.executed.mutable_view<int32_t>()[n] = 1;
}

void FakeEnv::step(const Array& actions, EnvStep& out) {
  if (counts_ && world_.fault(world_.scenario.env_throws)) throw std::runtime_error("an environment threw on purpose");
  for (Array* array :
       {&out.rewards, &out.terminated, &out.truncated, &out.success, &out.executed, &out.failed, &out.task})
    std::memset(array->mutable_data(), 0, array->bytes());
  out.errors.clear();
  const auto chosen = actions.view<int32_t>();
  for (size_t n = 0; n < current_.size(); ++n) step_row(n, chosen[n], out);
}

std::unique_ptr<Policy> fake_policy(World& world) { return std::make_unique<FakePolicy>(world); }

}  // namespace troupe::sim
