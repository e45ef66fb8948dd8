#pragma once
// AnswerCore: what a worker of a token run does, without the actor: draws prompts, asks for answers, scores them and
// pushes them as rollouts, against credits. Several prompts are in progress at a time, one per group. One thread.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/experience/answers/token_run.h"
#include "actors/messages.h"
#include "actors/request_retry.h"

namespace troupe {

class AnswerPort {
 public:
  virtual ~AnswerPort() = default;
  virtual void ask(InferenceRequest request) = 0;
  virtual void push(RolloutPtr rollout) = 0;
  // Ask the core to retry(group) after this long.
  virtual void retry_later(uint32_t group, std::chrono::milliseconds delay) = 0;
};

class AnswerCore {
 public:
  AnswerCore(const RunConfig& config, std::shared_ptr<const TokenRun> tokens, uint64_t worker, AnswerPort& port);

  // The prompts that are drawn depend on the epoch of the run, so that a resumed run draws others.
  void add_credits(uint32_t count, uint32_t epoch = 0);
  // Takes the answer to a group's request. An answer that does not fit the request counts as one that failed; the
  // result is then why. Throws InferenceFailed.
  std::optional<std::string> on_reply(const InferenceReply& reply);
  // Whether it is the answer to an outstanding request.
  bool awaits(const InferenceReply& reply) const;
  // Sends the outstanding request of a group again, or of all groups (their inference actor was replaced).
  void retry(uint32_t group);
  void retry_all();
  // Call about once a second: asks again what has gone unanswered (RequestRetry). Inference answers a request once,
  // however often it comes.
  void beat();

  uint32_t groups() const { return static_cast<uint32_t>(groups_.size()); }
  uint64_t samples_per_rollout() const { return static_cast<uint64_t>(config_.generation.answers); }
  // The last error, when inference fails on the requests of all groups that wait for it (RequestRetry).
  std::optional<std::string> failing() const;
  WorkerReport report() const { return report_; }
  // The state of a worker of a deterministic run, as bytes and back. No request may be outstanding.
  std::string save() const;
  void load(const std::string& bytes);

 private:
  struct Group {
    uint32_t id = 0;
    bool waits = false;  // for the answer to `request`
    Prompt prompt;
    InferenceRequest request;
    RequestRetry retry;
  };

  void start(Group& group);
  void send(Group& group);
  void fail(Group& group, Fault fault, const std::string& error);
  RolloutPtr score(const Group& group, uint32_t epoch, const AnswerReply& reply);

  RunConfig config_;
  std::shared_ptr<const TokenRun> tokens_;
  uint64_t worker_;
  AnswerPort& port_;
  std::vector<Group> groups_;
  uint32_t credits_ = 0;
  uint32_t epoch_ = 0;
  uint64_t next_request_ = 1;
  uint64_t next_prompt_ = 0;
  uint64_t sequence_ = 0;
  WorkerReport report_;
};

}  // namespace troupe
