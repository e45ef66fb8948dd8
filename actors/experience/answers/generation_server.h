#pragma once
// GenerationServer: the Server of a token run: holds a Generator and computes one step of all answers in progress at a
// time, so that requests and weights are taken between steps. New weights are used from the next step on; answers in
// progress keep the keys and values that older weights computed, and every token has the version that sampled it. One
// thread.

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
  void pause(ClientId /*client*/) override {}  // a step never waits for a client
  void forget_worker(uint64_t worker) override;
  // An answer has tokens of one start of the run only: with weights of another epoch, answers begin anew.
  void load(const WeightSnapshot& weights) override;
  void run_ready(ServerPort& /*port*/) override {}
  void run_due(ServerPort& port) override;
  std::optional<Clock::time_point> due() const override;
  size_t requests() const override { return asked_.size(); }

 private:
  struct Asked {
    ClientId client;
    AnswerRequest request;
  };

  void schedule(uint64_t ticket, const AnswerRequest& request);
  // One step of the requests with these tickets, or of all. When the generator throws, each half of them is computed on
  // its own, and so on, so that a request that cannot be computed does not fail the others.
  void step(ServerPort& port, std::span<const uint64_t> only = {});

  const RunSpec& run_;
  std::unique_ptr<Generator> generator_;
  GenerationScheduler scheduler_;
  std::optional<PolicyVersion> version_;
  std::map<uint64_t, Asked> asked_;  // by ticket
};

}  // namespace troupe
