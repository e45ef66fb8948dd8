#pragma once
// PolicyServer: the Server of a run on environments: holds a policy replica, and batches requests by size or deadline
// (RequestBatcher). When the forward of a batch fails, each of its requests is computed alone, and one that fails again
// gets the text of the error. New weights are loaded between batches. One thread.

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "actors/experience/common/run_spec.h"
#include "actors/experience/common/server.h"
#include "actors/experience/grid/request_batcher.h"
#include "models/policy.h"

namespace troupe {

class PolicyServer final : public Server {
 public:
  // `run` and `factories` must live as long as the server.
  PolicyServer(const RunSpec& run, const RunFactories& factories);

  Misfit misfit(const RequestBody& request) const override;
  void accept(uint64_t ticket, ClientId client, const RequestBody& request, Clock::time_point now) override;
  void forget(uint64_t ticket) override;
  void pause(ClientId client) override { batcher_.pause(client); }
  void forget_worker(uint64_t worker) override;
  // Makes the policy at the first call.
  void load(const WeightsPtr& weights, Clock::time_point now) override;
  void run_ready(ServerPort& port) override;
  void run_due(ServerPort& port) override { run_ready(port); }
  std::optional<Clock::time_point> due() const override { return batcher_.deadline(); }
  size_t requests() const override { return requests_.size(); }

  const RequestBatcher& batcher() const { return batcher_; }

 private:
  struct Asked {
    uint64_t ticket = 0;
    StepRequest request;
  };
  struct Forward;

  void run_batch(LeaveReason reason, ServerPort& port);
  void compute(const std::vector<Asked>& batch, ServerPort& port);
  Forward run_forward(const std::vector<Asked>& batch);

  const RunSpec& run_;
  const RunFactories& factories_;
  RequestBatcher batcher_;
  std::unique_ptr<Policy> policy_;
  std::map<uint64_t, StepRequest> requests_;  // by ticket
};

}  // namespace troupe
