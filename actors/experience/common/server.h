#pragma once
// Server: what an inference actor does with the requests of one kind of experience, without the actor: holds a model,
// computes requests in batches, and says when the next batch is due. One thread.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/experience/common/array_checks.h"
#include "actors/messages/inference.h"
#include "actors/messages/weights.h"
#include "runtime/base/errors.h"
#include "runtime/weights/weights.h"

namespace troupe {

// A group of a worker, which has at most one request at a time.
struct ClientId {
  uint64_t worker = 0;  // number given by the inference actor
  uint32_t group = 0;
  friend auto operator<=>(const ClientId&, const ClientId&) = default;
};

// Where the results of a server go. A request has one of them.
class ServerPort {
 public:
  virtual ~ServerPort() = default;
  virtual void reply(uint64_t ticket, ReplyBody body) = 0;
  virtual void fail(uint64_t ticket, const std::string& error) = 0;
  virtual std::chrono::steady_clock::time_point now() const = 0;
};

class Server {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Server() = default;

  // Why a request cannot be served.
  virtual Misfit misfit(const RequestBody& request) const = 0;
  // Takes a request in that fits. `ticket` is the caller's number of it. The client has no other request.
  virtual void accept(uint64_t ticket, ClientId client, const RequestBody& request, Clock::time_point now) = 0;
  // Drops a request.
  virtual void forget(uint64_t ticket) = 0;
  // Nothing must wait for the client until its next request (SamplerPort::pause()).
  virtual void pause(ClientId client) = 0;
  // Drops all clients of a worker, and their requests.
  virtual void forget_worker(uint64_t worker) = 0;
  // Uses newer weights from now on, or, if what is in progress needs the old ones, once that is done. Throws what the
  // model throws, and keeps the old ones.
  virtual void load(const WeightsPtr& weights, Clock::time_point now) = 0;
  // Of the weights in use; nothing before the first. load(), run_ready() and run_due() change it.
  const std::optional<PolicyVersion>& version() const { return version_; }

  // -- once there are weights
  // Computes what need not wait for anything.
  virtual void run_ready(ServerPort& port) = 0;
  // Computes what is due.
  virtual void run_due(ServerPort& port) = 0;
  // When to call run_due(); a time in the past: as soon as other messages have had their turn.
  virtual std::optional<Clock::time_point> due() const = 0;

  // Requests that have no result yet.
  virtual size_t requests() const = 0;

  // Cumulative counts, and the batches since the last call.
  InferenceReport take_report();
  // The counts of a deterministic run.
  std::string save() const;
  void load_counts(const std::string& bytes, const std::string& whose);

 protected:
  void note_batch(int64_t rows, Clock::duration latency);

  InferenceReport counts_;
  std::optional<PolicyVersion> version_;

 private:
  std::vector<int32_t> batch_rows_;
  std::vector<float> latency_us_;
};

}  // namespace troupe
