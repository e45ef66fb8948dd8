#pragma once
// RankGradients: how a rank exchanges gradients over a process group of the ranks (network.backend), in place of the
// exchange actor. A group is joined anew when the ranks change, or after a failure. Owned by the trainer of a rank;
// used on its thread, and calls back from another one.

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/messages/ranks.h"
#include "models/shards/gradient_group.h"
#include "runtime/weights/process_group.h"

namespace troupe {

// How so many gradients are divided among the ranks of an attempt at an update.
GradientDivision gradient_division(const RunConfig& config, size_t ranks, size_t elements);

class RankGradients {
 public:
  using Deliver = std::function<void(const RoundSaid&)>;
  using Fail = std::function<void(const GradientsFailed&)>;
  RankGradients(std::shared_ptr<GroupBackend> backend, const NetworkConfig& network)
      : backend_(std::move(backend)), network_(network) {}

  // The address at which the ranks meet, if this is rank 0's. Throws ConfigError when it cannot be bound.
  Rendezvous host() { return backend_->host(); }
  // An attempt begins whose gradients travel over this group. It is joined if it is another one than before; then the
  // functions are called for it.
  void begin(const Attempt& attempt, const Rendezvous& group, const GradientDivision& division, Deliver deliver,
             Fail fail);
  // An attempt begins whose gradients do not travel over a group.
  void leave();
  // Whether the group exchanges this.
  bool takes(const RankPart& part) const { return group_ && !part.branches.empty(); }
  void say(const RoundPiece& piece, RankPart part) { group_->say({number_, piece}, std::move(part.branches)); }

 private:
  const std::shared_ptr<GroupBackend> backend_;
  const NetworkConfig network_;
  uint64_t number_ = 0;              // of the attempt
  std::atomic<uint64_t> update_{0};  // likewise; read by the group's thread
  Rendezvous joined_;
  // Last, because their threads use the members above.
  std::unique_ptr<GradientGroup> group_;
  std::vector<std::future<void>> ends_;  // of groups before: long where one is just connecting with a lost rank
};

}  // namespace troupe
