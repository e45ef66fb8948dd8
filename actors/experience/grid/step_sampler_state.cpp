// save_parts() and load_parts(): the state of a worker of a deterministic run, as bytes.
#include <cstring>
#include <stdexcept>

#include "actors/experience/common/state_bytes.h"
#include "actors/experience/grid/array_rows.h"
#include "actors/experience/grid/environment_calls.h"
#include "actors/experience/grid/step_sampler.h"

namespace troupe {

std::vector<std::string> StepSampler::save_parts() const {
  std::vector<std::string> parts;
  for (const auto& group : groups_) parts.push_back(save_group(*group));
  return parts;
}

void StepSampler::load_parts(const std::vector<std::string>& parts) {
  TROUPE_CHECK(parts.size() == groups_.size(), parts.size(), groups_.size());
  for (size_t g = 0; g < parts.size(); ++g) load_group(*groups_[g], parts[g]);
}

std::string StepSampler::save_group(const Group& group) const {
  TROUPE_CHECK(!group.running && !group.closing && group.resting == 0 && !group.parked, group.id);
  std::string env;
  {
    EnvironmentCall call;
    if (!group.env->save(env)) throw std::runtime_error(group.env->spec().id + " cannot save its state");
    call.note_done();
  }
  const Array returns = Array::of<float>({static_cast<int64_t>(group.returns.size())}, group.returns);
  const auto with = [&](const auto&... more) {
    return to_bytes(env, group.current->observations_at(0), group.current->action_mask_at(0), group.decisions, returns,
                    group.lengths, group.tasks, group.failures, group.quarantined, more...);
  };
  return group.recurrent.empty() ? with() : with(group.recurrent.state(), group.recurrent.starts());
}

void StepSampler::load_group(Group& group, const std::string& bytes) {
  const std::string whose = "worker " + std::to_string(worker_) + " group " + std::to_string(group.id);
  std::string env;
  Arrays observations;
  Array action_mask, returns, state, starts;
  const auto read = [&](auto&... more) {
    from_bytes(bytes, whose, env, observations, action_mask, group.decisions, returns, group.lengths, group.tasks,
               group.failures, group.quarantined, more...);
  };
  if (group.recurrent.empty()) {
    read();
  } else {
    read(state, starts);
    group.recurrent.load(state, starts);
  }
  group.returns.assign(returns.view<float>().begin(), returns.view<float>().end());
  const auto rows = static_cast<size_t>(group.env->rows());
  TROUPE_CHECK(group.returns.size() == rows && group.lengths.size() == rows && group.tasks.size() == rows &&
                   group.failures.size() == rows,
               whose, rows);
  group.env->load(env);
  // Not from Env::observe(), which writes zeros for a row that is inactive because it failed. Its last step wrote the
  // first observation of its next episode.
  first_rollout(group);
  put_rows(group.step.observations, 0, observations);
  TROUPE_CHECK(action_mask.bytes() == group.step.action_mask.bytes(), whose, action_mask.bytes());
  if (action_mask.bytes() > 0)  // the data of an empty array may be null, which memcpy must not get
    std::memcpy(group.step.action_mask.mutable_data(), action_mask.data(), action_mask.bytes());
}

}  // namespace troupe
