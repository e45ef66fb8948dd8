#pragma once
// Messages about the ranks of a run inside the process of rank 0: between its trainer, the exchange
// (actors/rank_exchange.h) and the supervisor. They do not cross the network.

#include <cstddef>
#include <string>
#include <vector>

#include <caf/actor_addr.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages/ranks.h"

namespace troupe {

// To the exchange, from rank 0 in the same process: an attempt at an update begins.
struct ExchangeAttempt {
  struct Rank {
    RankActor actor;
    ShardRange shards;
  };
  Attempt attempt;
  ShardRange own;  // of rank 0
  std::vector<Rank> others;
  size_t elements = 0;               // trained parameters, of which each rank trains a slice; 0: each trains all
  bool gradients_elsewhere = false;  // they travel over a process group
};

// From the exchange to rank 0, in the same process: what this rank has said does not fit.
struct RankMisfit {
  caf::actor_addr rank;
  std::string error;
};

using ExchangeOwner = caf::typed_actor<caf::reacts_to<RoundSaid>, caf::reacts_to<RankCopy>, caf::reacts_to<RankMisfit>>;
using RankExchangeActor = ExchangeService::extend<caf::reacts_to<ExchangeAttempt>>;

// To the trainer, from this process: another rank.
struct RankJoined {
  RankActor rank;
  std::string name;          // of its process: "rank process 3 (process 4711)"
  std::string address = {};  // at which that process reaches this one
};

}  // namespace troupe
