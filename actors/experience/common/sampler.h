#pragma once
// Sampler: what a worker does, without the actor. Its groups turn credits into rollouts: each sends requests to
// inference, one at a time, and makes experience from the replies. What all kinds of experience have in common is here:
// requests and when they are sent again, credits, and how long groups wait for either. One thread.

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "actors/experience/common/array_checks.h"
#include "actors/experience/common/request_retry.h"
#include "actors/messages/experience.h"
#include "actors/messages/inference.h"
#include "actors/messages/scoring.h"
#include "runtime/stats/histogram.h"

namespace troupe {

// Where a sampler's messages go.
class SamplerPort {
 public:
  virtual ~SamplerPort() = default;
  virtual void ask(InferenceRequest request) = 0;
  // Batches must not wait for the group until its next request: it has no credit, or all of its rows rest.
  virtual void pause(uint32_t group) = 0;
  virtual void push(RolloutPtr rollout) = 0;
  // Score these answers, then call the sampler's on_scores(), perhaps before this function returns.
  virtual void score(ScoreRequest request) = 0;
  // Call the sampler's wake(group, item) after this long.
  virtual void wake_later(uint32_t group, uint32_t item, std::chrono::milliseconds delay) = 0;
  virtual std::chrono::steady_clock::time_point now() const = 0;
};

class Sampler {
 public:
  // The item of wake_later() after which the group's request is sent again.
  static constexpr uint32_t kAskAgain = std::numeric_limits<uint32_t>::max();

  virtual ~Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Call once before the first credit. `epoch` is that of the start of the run (PolicyVersion): each start draws other
  // episodes, actions or prompts than the starts before it.
  virtual void begin(uint32_t epoch) = 0;
  void add_credits(uint32_t count);
  // Takes the reply to a group's request, or that it is in progress. A reply that does not fit the request counts as
  // one that failed; the result is then why. Throws InferenceFailed, and what the kind of experience throws.
  std::optional<std::string> on_reply(const InferenceReply& reply);
  // Whether it is the reply to an outstanding request.
  bool awaits(const InferenceReply& reply) const;
  // Takes the reply to a request for scores; throws ScoringFailed. For kinds of experience that ask for scores.
  virtual void on_scores(const ScoreReply& reply);
  // A time given to wake_later() is over.
  void wake(uint32_t group, uint32_t item);
  // Sends all outstanding requests to actors of this role again: their inference actor was replaced.
  void ask_all_again(Role role);
  // Call about once a second: sends again what has gone unanswered (RequestRetry). While a request is in progress,
  // inference answers it once, however often it comes.
  void beat();

  uint32_t groups() const { return groups_of_worker_; }
  // First and end of the numbers that requests have in place of a group's (InferenceRequest::group).
  std::pair<uint32_t, uint32_t> requests_of(Role role) const;
  // Of the request with this number.
  Role role_of(uint32_t number) const { return number < groups() ? Role::sampling : Role::scoring; }
  // What has failed when that has: "inference" or "scoring".
  std::string what_failed(uint32_t number) const;
  // Whether a request for scores is outstanding.
  bool waits_for_scorer() const;
  // Of a whole rollout.
  virtual uint64_t samples_per_rollout() const = 0;
  uint32_t credits() const { return credits_; }
  // The last error, when no group that has work can go on.
  virtual std::optional<std::string> failing() const = 0;
  // Calls of beat() for which the group that waits longest has had no answer; 0 below RequestRetry::kSilence.
  uint32_t beats_without_answer() const;
  // Whose answer is missing for so long.
  Role silent_role() const;
  // Cumulative counts, and what partial rollouts hold.
  WorkerReport report() const;
  uint64_t env_failures() const { return report_.env_failures; }
  // Since the call before.
  WorkerTimes take_times();

  // Deterministic runs, when no credit is left and no request is outstanding: everything the worker is, as bytes, and
  // back (after begin(), before the first credit). save() throws where an environment cannot, load() when the state is
  // another configuration's.
  std::string save() const;
  void load(const std::string& bytes);

 protected:
  using Clock = std::chrono::steady_clock;

  // `patience`: calls of beat() without a sign of inference after which a request is sent again. `scoring`: groups ask
  // for scores too, with requests of the numbers scoring_number(group).
  Sampler(uint64_t worker, int64_t groups, SamplerPort& port, uint32_t patience = RequestRetry::kPatience,
          bool scoring = false);

  // -- what a kind of experience does
  // Whether the group may begin a rollout with a credit.
  virtual bool is_free(uint32_t group) const = 0;
  // Begins a rollout; its credit is taken.
  virtual void start(uint32_t group) = 0;
  // Whether the reply to the request with this number, the group's or scoring_number() of it, fits that.
  virtual Misfit misfit(uint32_t number, const RequestBody& request, const InferenceReply& reply) const = 0;
  // Makes experience from a reply that fits.
  virtual void take(uint32_t number, const RequestBody& request, const InferenceReply& reply) = 0;
  // A time given to wake_later() with this item is over; for kinds that use it.
  virtual void on_wake(uint32_t group, uint32_t item) = 0;
  // Adds what partial rollouts hold, and counts that are only known now.
  virtual void add_to(WorkerReport& report) const = 0;
  virtual std::vector<std::string> save_parts() const = 0;
  virtual void load_parts(const std::vector<std::string>& parts) = 0;

  // -- what it uses
  void ask(uint32_t number, RequestBody body);
  uint32_t scoring_number(uint32_t group) const { return groups() + group; }
  bool is_asking(uint32_t number) const { return asking_[number].outstanding; }
  // Inference, or a scorer, fails on the request with this number.
  bool inference_fails(uint32_t number) const { return asking_[number].retry.is_failing(); }
  // Begins a rollout if there is a credit for it.
  bool start_with_credit(uint32_t group);
  // The group has nothing to do until a credit comes.
  void wait_for_credit(uint32_t group);

  uint64_t worker_;
  SamplerPort& port_;
  uint64_t sequence_ = 0;  // of the next rollout
  WorkerReport report_;
  // In steps of environments, or in scoring answers: not by the clock of the port, since a simulated one stands still
  // inside them.
  std::chrono::nanoseconds busy_{0};
  Histogram step_seconds_, answer_seconds_;  // of WorkerTimes

 private:
  struct Asking {
    bool outstanding = false;
    bool failed = false;       // and will be sent again: errors of other copies of it count no more
    InferenceRequest request;  // kept to send it again
    RequestRetry retry;
    // When the group began to wait for a credit, or for the answer to its request.
    std::optional<Clock::time_point> without_credit, asked;
  };

  void end_wait(std::optional<Clock::time_point>& since, std::chrono::nanoseconds& sum) const;
  void send(Asking& request);
  void ask_again(uint32_t number);
  void note_failed(Asking& request, Fault fault, const std::string& error);

  uint32_t groups_of_worker_;
  std::vector<Asking> asking_;  // by group, and those for scores after them
  uint32_t patience_;
  uint32_t credits_ = 0;
  uint64_t next_request_ = 1;
  std::chrono::nanoseconds credit_wait_{0}, action_wait_{0};  // of all groups together
};

}  // namespace troupe
