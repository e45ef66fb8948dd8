#pragma once
// WorkerCore: what a rollout worker does, without the actor: steps groups of sub-environments, writes rollouts, closes
// them with GAE and pushes them, against credits. While one group waits for its actions another one steps. One thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/messages.h"
#include "actors/recurrent_state.h"
#include "actors/request_retry.h"
#include "actors/rollout_writer.h"
#include "envs/env.h"
#include "models/learning/recurrence.h"

namespace troupe {

// Where a worker's words go.
class WorkerPort {
 public:
  virtual ~WorkerPort() = default;
  virtual void ask(InferenceRequest request) = 0;
  virtual void pause(uint32_t group) = 0;
  virtual void push(RolloutPtr rollout) = 0;
  // Ask the core to retry(group) after this long.
  virtual void retry_later(uint32_t group, std::chrono::milliseconds delay) = 0;
  // Ask the core to revive(group, row) after this long.
  virtual void revive_later(uint32_t group, uint32_t row, std::chrono::milliseconds delay) = 0;
};

class WorkerCore {
 public:
  using EnvFactory = std::function<std::unique_ptr<Env>()>;

  // Makes the environments; throws what they throw.
  WorkerCore(const RunConfig& config, const Recurrence& recurrence, uint64_t worker, const EnvFactory& make,
             WorkerPort& port);
  // Closes the environments, all at the same time.
  ~WorkerCore();
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;

  // Resets every environment; groups start as credits come. `epoch` is that of the start of the run (PolicyVersion):
  // each start plays other episodes and draws other actions than the starts before it.
  void begin(uint32_t epoch = 0);
  void add_credits(uint32_t count);
  // Takes the answer to a group's request and steps its environment. An answer that does not fit the request counts as
  // one that failed; the result is then why. Throws when a row fails quarantine_after times in a row and leaves its
  // group without rows, and InferenceFailed.
  std::optional<std::string> on_reply(const InferenceReply& reply);
  // Whether it is the answer to an outstanding request.
  bool awaits(const InferenceReply& reply) const;
  // Sends the outstanding request of a group again, or of all groups (their inference actor was replaced).
  void retry(uint32_t group);
  void retry_all();
  // Lets a row that failed step again. A row that failed waits restart_backoff, twice as long at each further failure
  // in a row, and is left out for good after quarantine_after of them.
  void revive(uint32_t group, uint32_t row);
  // Call about once a second: asks again what has gone unanswered (RequestRetry).
  void beat();

  // Deterministic runs, when no credit is left and nothing is outstanding: everything the worker is, as bytes, and back
  // (after begin(), before the first credit). save() throws where the environment cannot, load() when the state is
  // another configuration's.
  std::string save() const;
  void load(const std::string& bytes);

  uint32_t groups() const { return static_cast<uint32_t>(groups_.size()); }
  uint64_t samples_per_rollout() const;
  uint32_t credits() const { return credits_; }
  // The last error, when no environment that has work made its last step: each failed, also at its start, rests, is
  // left out, or belongs to a group whose request inference fails (RequestRetry).
  std::optional<std::string> failing() const;
  // Calls of beat() for which the group that waits longest has had no answer; 0 below RequestRetry::kSilence.
  uint32_t beats_without_answer() const;
  // Cumulative counts, and what partial rollouts hold.
  WorkerReport report() const;
  uint64_t env_failures() const { return report_.env_failures; }

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
    uint64_t outstanding = 0;                // id of the request under way, 0 = none
    InferenceRequest request;                // kept to ask again
    std::vector<ValueUse> value_uses;        // rows of its value_observations
    bool closes_all_rows = false;            // the last rows of value_observations are the observations after `closing`
    std::vector<float> returns;              // of the episodes under way, unscaled
    std::vector<int32_t> lengths;
    std::vector<int32_t> tasks;
    std::vector<uint32_t> failures;  // in a row
    int64_t resting = 0;             // rows that failed and wait
    int64_t quarantined = 0;         // rows in quarantine
    bool start_failed = false;       // in every row, and no step was made since
    bool parked = false;             // all rows rest: the next request waits for one
    RequestRetry retry;
    // When it began to wait for a credit, or for an answer.
    std::optional<std::chrono::steady_clock::time_point> without_credit, asked;
  };

  // Adds the time since `since`, and ends it.
  static void end_wait(std::optional<std::chrono::steady_clock::time_point>& since, std::chrono::nanoseconds& sum);
  void first_rollout(Group& group);
  std::string save(const Group& group) const;
  void load(Group& group, const std::string& bytes);
  void start_rollout(Group& group);
  void ask(Group& group, bool with_actions, bool with_last);
  void send(Group& group);
  void retry_failed(Group& group, Fault fault, const std::string& error);
  void take_values(Group& group, const StepReply& reply);
  void step(Group& group, PolicyVersion version, const StepReply& reply);
  void note_errors(const EnvStep& step);
  void track_episodes(Group& group);
  void rest(Group& group, uint32_t row);
  void go_on(Group& group);
  void close_and_push(Group& group);

  RunConfig config_;
  Recurrence recurrence_;
  uint64_t worker_;
  WorkerPort& port_;
  std::vector<std::unique_ptr<Group>> groups_;
  uint32_t credits_ = 0;
  uint64_t next_request_ = 1;
  uint64_t sequence_ = 0;
  uint64_t action_key_ = 0;
  bool keep_tasks_ = false;         // rollouts carry tasks
  bool keep_observations_ = false;  // rollouts carry final and last observations
  bool keep_parameters_ = false;    // rollouts carry the parameters of the behaviour policy
  WorkerReport report_;
  // In steps of the environments, and of all groups together: waiting for credits, and for answers.
  std::chrono::nanoseconds stepping_{0}, credit_wait_{0}, action_wait_{0};
};

}  // namespace troupe
