#include "actors/experience/grid/step_sampler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "actors/experience/grid/array_rows.h"
#include "actors/experience/grid/environment_calls.h"
#include "actors/experience/grid/grid_checks.h"
#include "algorithms/choice/algorithm_choice.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// In rows that failed, allows all categories of each choice for which the mask allows none: the policy needs one, and
// the row fails if its action is executed. All other masks stay, because a row that failed may act on its observation.
void allow_where_none(const ActionSpec& spec, EnvStep& step) {
  if (step.action_mask.empty()) return;
  const auto failed = step.failed.view<uint8_t>();
  uint8_t* allowed = step.action_mask.mutable_view<uint8_t>().data();
  for (size_t n = 0; n < failed.size(); ++n)
    for (const int32_t bins : spec.bins) {
      if (failed[n] != 0 && std::count(allowed, allowed + bins, 0) == bins) std::fill_n(allowed, bins, 1);
      allowed += bins;
    }
}

}  // namespace

StepSampler::StepSampler(const RunConfig& config, const Recurrence& recurrence, uint64_t worker, const EnvFactory& make,
                         SamplerPort& port)
    : Sampler(worker, config.workers.groups, port),
      config_(config),
      recurrence_(recurrence),
      keep_tasks_(rollout_extras(config.algorithm).tasks),
      keep_observations_(rollout_extras(config.algorithm).next_observations),
      keep_parameters_(rollout_extras(config.algorithm).policy_parameters) {
  for (int64_t g = 0; g < config.workers.groups; ++g) {
    auto group = std::make_unique<Group>();
    group->id = static_cast<uint32_t>(g);
    group->env = make();
    const int64_t rows = group->env->rows();
    group->step = EnvStep::allocate(group->env->spec(), rows);
    group->recurrent = RecurrentState(recurrence.state_size, rows);
    group->returns.assign(static_cast<size_t>(rows), 0.0f);
    group->lengths.assign(static_cast<size_t>(rows), 0);
    group->tasks.assign(static_cast<size_t>(rows), 0);
    group->failures.assign(static_cast<size_t>(rows), 0);
    groups_.push_back(std::move(group));
  }
}

StepSampler::~StepSampler() {
  for (auto& group : groups_) group->env->begin_close();  // the destructors wait
}

uint64_t StepSampler::samples_per_rollout() const {
  return static_cast<uint64_t>(config_.rollout.length * groups_.front()->env->rows());
}

// Makes the writer of the first rollout, into which the environment writes its current observations.
void StepSampler::first_rollout(Group& group) {
  group.current =
      std::make_unique<RolloutWriter>(group.env->spec(), config_.rollout.length, group.env->rows(), recurrence_);
  group.step.observations = group.current->observations_at(0);
  group.step.action_mask = group.current->action_mask_at(0);
}

void StepSampler::begin(uint32_t epoch) {
  const uint64_t seed = epoch == 0 ? config_.seed : derive_key(config_.seed, "epoch", epoch);
  action_key_ = derive_key(seed, "action", worker_);
  const auto first_row = [&](const Group& group) {
    return static_cast<uint64_t>((static_cast<int64_t>(worker_) * config_.workers.groups + group.id) *
                                 group.env->rows());
  };
  for (auto& group : groups_) group->env->begin_reset(seed, first_row(*group));  // all at the same time
  for (auto& group : groups_) {
    first_rollout(*group);
    const auto begin = Clock::now();
    {
      EnvironmentCall call;
      group->env->reset(seed, first_row(*group), group->step);
      call.note(group->step);
    }
    group->start_failed =
        std::ranges::all_of(group->step.failed.view<uint8_t>(), [](uint8_t each) { return each != 0; });
    if (group->start_failed) busy_ += Clock::now() - begin;
    note_errors(group->step);
    allow_where_none(group->env->spec().action, group->step);
    std::ranges::copy(group->step.task.view<int32_t>(), group->tasks.begin());
    wait_for_credit(group->id);
  }
}

bool StepSampler::is_free(uint32_t id) const { return !groups_[id]->running && !groups_[id]->parked && !is_asking(id); }

void StepSampler::start(uint32_t id) {
  Group& group = *groups_[id];
  group.running = group.began = true;
  group.t = 0;
  ask_for(group, /*with_actions=*/true, /*with_last=*/false);
}

// Asks for actions at the current observations, for values of final observations noted in value_uses, and, when a
// rollout is closed and no other begins, for values of the observations after it.
void StepSampler::ask_for(Group& group, bool with_actions, bool with_last) {
  const int64_t rows = group.env->rows();
  StepRequest request;
  if (with_actions) {
    request.rows = static_cast<uint64_t>(rows);
    request.observations = group.current->observations_at(group.t);
    request.action_mask = group.current->action_mask_at(group.t);
    request.state = group.recurrent.state();
    request.starts = group.recurrent.starts();
    request.seeds = Array::uninitialized(DType::i64, {rows});
    const auto seeds = request.seeds.mutable_view<int64_t>();
    for (int64_t n = 0; n < rows; ++n)
      seeds[static_cast<size_t>(n)] =
          static_cast<int64_t>(mix(mix(action_key_, group.decisions), static_cast<uint64_t>(group.id * rows + n)));
    ++group.decisions;
  }
  if (!group.value_uses.empty() || with_last) {
    std::vector<int64_t> finals;
    for (const ValueUse& use : group.value_uses) finals.push_back(use.row);
    request.value_observations = gather_rows(group.step.final_observations, finals, with_last ? rows : 0);
    if (with_last)
      put_rows(request.value_observations, static_cast<int64_t>(finals.size()), group.current->observations_at(0));
    if (!group.recurrent.empty()) {
      const Arrays states = {{"state", group.recurrent.state()}};
      Arrays values = gather_rows(states, finals, with_last ? rows : 0);
      if (with_last) put_rows(values, static_cast<int64_t>(finals.size()), states);
      request.value_state = values.at("state");
    }
  }
  group.closes_all_rows = with_last;
  ask(group.id, std::move(request));
}

Misfit StepSampler::misfit(uint32_t id, const RequestBody& request, const InferenceReply& reply) const {
  const auto* result = std::get_if<StepReply>(&reply.body);
  if (result == nullptr) return "it holds no actions";
  return troupe::misfit(config_, groups_[id]->env->spec(), recurrence_, std::get<StepRequest>(request), *result);
}

void StepSampler::take(uint32_t id, const RequestBody& request, const InferenceReply& reply) {
  Group& group = *groups_[id];
  take_values(group, reply.steps());
  if (std::get<StepRequest>(request).rows > 0) return step(group, reply.version, reply.steps());
  if (start_with_credit(id)) return;
  wait_for_credit(id);
  port_.pause(id);
}

// Writes the extra values into their rollouts, and closes a full rollout once its last values are known.
void StepSampler::take_values(Group& group, const StepReply& reply) {
  const auto extra = reply.extra_values.empty() ? std::span<const float>() : reply.extra_values.view<float>();
  for (size_t i = 0; i < group.value_uses.size(); ++i) {
    const ValueUse& use = group.value_uses[i];
    use.writer->set_next_value(use.step, use.row, extra[i]);
  }
  const auto finals = static_cast<int64_t>(group.value_uses.size());
  group.value_uses.clear();
  if (!group.closing) return;
  group.closing->set_last_values(group.closes_all_rows ? reply.extra_values.slice(finals, finals + group.env->rows())
                                                       : reply.values);
  close_and_push(group);
}

void StepSampler::close_and_push(Group& group) {
  RolloutPtr rollout = group.closing->close(config_.algorithm, worker_, sequence_++, group.id);
  group.closing.reset();
  port_.push(std::move(rollout));
}

void StepSampler::step(Group& group, PolicyVersion version, const StepReply& reply) {
  const int64_t t = group.t, rows = group.env->rows(), length = config_.rollout.length;
  RolloutWriter& writer = *group.current;
  writer.record_policy(t, reply.actions, reply.log_probs, reply.values, version);
  if (keep_parameters_) writer.record_parameters(t, reply.policy_parameters);
  if (!group.recurrent.empty()) {
    writer.record_state(t, group.recurrent.state(), group.recurrent.starts());
    group.recurrent.take(reply.state);
  }

  const bool full = t + 1 == length;
  std::unique_ptr<RolloutWriter> next;
  if (full) next = std::make_unique<RolloutWriter>(group.env->spec(), length, rows, recurrence_);
  group.step.observations = full ? next->observations_at(0) : writer.observations_at(t + 1);
  group.step.action_mask = full ? next->action_mask_at(0) : writer.action_mask_at(t + 1);
  const auto begin = Clock::now();
  {
    EnvironmentCall call;
    group.env->step(reply.actions, group.step);
    call.note(group.step);
  }
  const auto took = Clock::now() - begin;
  busy_ += took;
  step_seconds_.add(std::chrono::duration<double>(took).count() / static_cast<double>(rows));
  group.start_failed = false;
  allow_where_none(group.env->spec().action, group.step);
  writer.record_step(t, group.step, config_.env.reward_scale, config_.env.max_abs_reward);
  if (keep_tasks_) writer.keep_tasks(t, group.tasks);

  track_episodes(group);
  if (full) {
    if (keep_observations_) writer.keep_last(next->observations_at(0));
    group.closing = std::move(group.current);
    group.current = std::move(next);
    group.running = false;
    group.t = 0;
  } else {
    ++group.t;
  }
  if (group.resting + group.quarantined == rows) {
    group.parked = true;
    port_.pause(group.id);
  } else {
    go_on(group);
  }
}

// Sends the next request after a step: for the next actions if the rollout continues or another may start, otherwise
// for the last values.
void StepSampler::go_on(Group& group) {
  if (!group.closing)
    ask_for(group, /*with_actions=*/true, /*with_last=*/false);
  else if (!start_with_credit(group.id))
    ask_for(group, /*with_actions=*/false, /*with_last=*/true);
}

void StepSampler::rest(Group& group, uint32_t row) {
  const uint32_t failures = ++group.failures[row];
  group.env->set_active(row, false);
  if (failures >= static_cast<uint32_t>(config_.workers.quarantine_after)) {
    ++group.quarantined;
    if (group.quarantined == group.env->rows())
      throw std::runtime_error("every sub-environment of a group failed " + std::to_string(failures) +
                               " times in a row, the last with: " + report_.last_error);
    return;
  }
  ++group.resting;
  port_.wake_later(group.id, row, config_.workers.restart_backoff * (1LL << std::min<uint32_t>(failures - 1, 16)));
}

void StepSampler::on_wake(uint32_t id, uint32_t row) {
  Group& group = *groups_.at(id);
  group.env->set_active(row, true);
  --group.resting;
  if (!std::exchange(group.parked, false)) return;
  go_on(group);
}

// Counts failures by their errors: every failure adds one to step.errors.
void StepSampler::note_errors(const EnvStep& step) {
  report_.env_failures += step.errors.size();
  if (!step.errors.empty()) report_.last_error = step.errors.front();
}

// Counts the step just made, notes which final observations need a value, and collects the episodes that ended.
void StepSampler::track_episodes(Group& group) {
  const EnvStep& out = group.step;
  const auto terminated = out.terminated.view<uint8_t>(), truncated = out.truncated.view<uint8_t>();
  const auto failed = out.failed.view<uint8_t>(), success = out.success.view<uint8_t>();
  const auto executed = out.executed.view<int32_t>(), task = out.task.view<int32_t>();
  const auto rewards = out.rewards.view<float>();
  note_errors(out);
  group.recurrent.note_step(out);
  for (size_t n = 0; n < group.returns.size(); ++n) {
    report_.env_steps += static_cast<uint64_t>(executed[n]);
    bool over = failed[n] != 0;
    if (over) {
      if (failed[n] == static_cast<uint8_t>(Failed::now)) rest(group, static_cast<uint32_t>(n));
    } else {
      group.failures[n] = 0;
      group.returns[n] += rewards[n];
      group.lengths[n] += executed[n];
      if (terminated[n] != 0 || truncated[n] != 0) {
        over = true;
        group.current->add_episode(group.returns[n], group.lengths[n], success[n] != 0, group.tasks[n]);
      }
      if (terminated[n] == 0 && truncated[n] != 0) {
        group.value_uses.push_back({group.current.get(), group.t, static_cast<int64_t>(n)});
        if (keep_observations_) group.current->keep_final(group.t, static_cast<int64_t>(n), out.final_observations);
      }
    }
    if (over) {
      group.returns[n] = 0;
      group.lengths[n] = 0;
      group.tasks[n] = task[n];
    }
  }
}

}  // namespace troupe
