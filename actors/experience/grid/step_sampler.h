#pragma once
// StepSampler: the Sampler of a run on environments: steps groups of sub-environments, writes rollouts, closes them
// with GAE and pushes them. While one group waits for its actions another one steps. One thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/experience/common/sampler.h"
#include "actors/experience/grid/recurrent_state.h"
#include "actors/experience/grid/rollout_writer.h"
#include "envs/env.h"
#include "models/learning/recurrence.h"

namespace troupe {

class StepSampler final : public Sampler {
 public:
  using EnvFactory = std::function<std::unique_ptr<Env>()>;

  // Makes the environments; throws what they throw.
  StepSampler(const RunConfig& config, const Recurrence& recurrence, uint64_t worker, const EnvFactory& make,
              SamplerPort& port);
  // Closes the environments, all at the same time.
  ~StepSampler() override;

  uint64_t samples_per_rollout() const override;
  // Resets every environment.
  void begin(uint32_t epoch) override;
  // The last error, when no environment that has work made its last step: each failed, also at its start, rests, is
  // left out, or belongs to a group whose request inference fails.
  std::optional<std::string> failing() const override;

 protected:
  bool is_free(uint32_t group) const override;
  void start(uint32_t group) override;
  Misfit misfit(uint32_t group, const RequestBody& request, const InferenceReply& reply) const override;
  void take(uint32_t group, const RequestBody& request, const InferenceReply& reply) override;
  // Lets row `item` of the group, which failed, step again.
  void on_wake(uint32_t group, uint32_t item) override;
  void add_to(WorkerReport& report) const override;
  std::vector<std::string> save_parts() const override;
  void load_parts(const std::vector<std::string>& parts) override;

 private:
  struct ValueUse {  // where one row of extra values belongs
    RolloutWriter* writer = nullptr;
    int64_t step = 0;
    int64_t row = 0;
  };
  struct Group {
    uint32_t id = 0;
    std::unique_ptr<Env> env;
    EnvStep step;
    RecurrentState recurrent;
    std::unique_ptr<RolloutWriter> current;  // being written
    std::unique_ptr<RolloutWriter> closing;  // full, waits for its last values
    int64_t t = 0;                           // the step of `current` that is asked for next
    bool running = false;                    // has a credit for `current`
    bool began = false;                      // has had a credit
    uint64_t decisions = 0;                  // keys the action draws
    std::vector<ValueUse> value_uses;        // rows of value_observations of its request
    bool closes_all_rows = false;            // the last rows of value_observations are the observations after `closing`
    std::vector<float> returns;              // of the episodes under way, unscaled
    std::vector<int32_t> lengths;
    std::vector<int32_t> tasks;
    std::vector<uint32_t> failures;  // in a row
    int64_t resting = 0;             // rows that failed and wait
    int64_t quarantined = 0;         // rows in quarantine
    bool start_failed = false;       // in every row, and no step was made since
    bool parked = false;             // all rows rest: the next request waits for one
  };

  void first_rollout(Group& group);
  std::string save_group(const Group& group) const;
  void load_group(Group& group, const std::string& bytes);
  void ask_for(Group& group, bool with_actions, bool with_last);
  void take_values(Group& group, const StepReply& reply);
  void step(Group& group, PolicyVersion version, const StepReply& reply);
  void note_errors(const EnvStep& step);
  void track_episodes(Group& group);
  void rest(Group& group, uint32_t row);
  void go_on(Group& group);
  void close_and_push(Group& group);

  RunConfig config_;
  Recurrence recurrence_;
  std::vector<std::unique_ptr<Group>> groups_;
  uint64_t action_key_ = 0;
  bool keep_tasks_ = false;         // rollouts carry tasks
  bool keep_observations_ = false;  // rollouts carry final and last observations
  bool keep_parameters_ = false;    // rollouts carry the parameters of the behaviour policy
};

}  // namespace troupe
