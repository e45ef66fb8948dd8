#pragma once
// GenerationServer: the Server of a token run: holds a Generator and computes one step of all answers in progress at a
// time, so that requests and weights are taken between steps. generation.on_new_weights says what new weights do to the
// answers in progress; every token has the version that sampled it. One thread.

#include <map>
#include <memory>
#include <optional>
#include <span>

#include "actors/experience/answers/generation_scheduler.h"
#include "actors/experience/common/run_spec.h"
#include "actors/experience/common/server.h"
#include "runtime/base/version.h"

namespace troupe {

class GenerationServer final : public Server {
 public:
  // `run` must live as long as the server.
  GenerationServer(const RunSpec& run, const RunFactories& factories);

  Misfit misfit(const RequestBody& request) const override;
  void accept(uint64_t ticket, ClientId client, const RequestBody& request, Clock::time_point now) override;
  void forget(uint64_t ticket) override;
  void pause(ClientId client) override;  // its conversation is over; a step never waits for a client
  void forget_worker(uint64_t worker) override;
  // Keeps the newest weights alone while they wait: for the end of the requests that have begun, or, so that each token
  // that is computed anew is of use, for the next tokens. An answer has tokens of one start of the run only: weights of
  // another epoch never wait, and answers begin anew with them.
  void load(const WeightsPtr& weights, Clock::time_point now) override;
  void run_ready(ServerPort& port) override { use_waiting(port.now()); }
  void run_due(ServerPort& port) override;
  std::optional<Clock::time_point> due() const override;
  size_t requests() const override { return asked_.size(); }

 private:
  struct Asked {
    ClientId client;
    AnswerRequest request;
  };

  // `before`: the ticket of the turn before, or its own.
  void schedule(uint64_t ticket, const AnswerRequest& request, uint64_t before);
  bool must_wait(const WeightSnapshot& weights) const;
  // Uses the weights that wait, if they need not wait any longer.
  void use_waiting(Clock::time_point now);
  void note_step(const std::vector<Generation>& done, Clock::duration duration);
  // One step of the requests with these tickets, or of all. When the generator throws, each half of them is computed on
  // its own, and so on, so that a request that cannot be computed does not fail the others.
  void step(ServerPort& port, std::span<const uint64_t> only = {});

  const RunSpec& run_;
  std::unique_ptr<Generator> generator_;
  GenerationScheduler scheduler_;
  OnNewWeights on_new_weights_;
  WeightsPtr waiting_;                   // newer weights, not in use yet
  Clock::time_point waits_since_;        // the first of them
  std::map<uint64_t, Asked> asked_;      // by ticket
  std::map<ClientId, uint64_t> before_;  // the last ticket of each client that has had turns
};

}  // namespace troupe
