#pragma once
// ScoringServer: the Server of scorers: gives answers the log-probabilities of their tokens by the reference, and the
// scores of the reward model, as far as scorers compute these in the run. What has come while it computed is the next
// batch. One thread.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/experience/common/run_spec.h"
#include "actors/experience/common/server.h"

namespace troupe {

class ScoringServer final : public Server {
 public:
  // `run` must live as long as the server.
  ScoringServer(const RunSpec& run, const RunFactories& factories);

  Misfit misfit(const RequestBody& request) const override;
  void accept(uint64_t ticket, ClientId client, const RequestBody& request, Clock::time_point now) override;
  void forget(uint64_t ticket) override { asked_.erase(ticket); }
  void pause(ClientId /*client*/) override {}  // a batch never waits for a client
  void forget_worker(uint64_t worker) override;
  void load(const WeightsPtr& weights, Clock::time_point now) override;
  void run_ready(ServerPort& /*port*/) override {}
  void run_due(ServerPort& port) override;
  std::optional<Clock::time_point> due() const override;
  size_t requests() const override { return asked_.size(); }

 private:
  struct Asked {
    ClientId client;
    ScoringRequest request;
    Clock::time_point since;
  };

  // The tickets of the oldest requests that fit into a batch.
  std::vector<uint64_t> batch() const;
  std::vector<ScoringReply> compute(std::span<const uint64_t> tickets);
  // When the models throw, each half is computed on its own, and so on, so that a request that cannot be computed does
  // not fail the others.
  void answer(ServerPort& port, std::span<const uint64_t> tickets);

  const RunSpec& run_;
  std::unique_ptr<ReferenceModel> reference_;  // null if scorers do not compute with it
  std::map<uint64_t, Asked> asked_;            // by ticket
};

}  // namespace troupe
