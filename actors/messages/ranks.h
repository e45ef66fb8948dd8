#pragma once
// Messages between the trainer, which is rank 0, and the other ranks of a run. They say of which attempt at which
// update they are: an update is tried again with other shards when a rank is lost, and messages of an attempt before
// are of no use. These messages cross the network.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages/control.h"
#include "actors/messages/rank_parts.h"
#include "models/experience/rollout.h"
#include "models/policy.h"
#include "runtime/caf/inspect.h"
#include "runtime/caf/inspect_shared.h"

namespace troupe {

template <class I> typename I::result_type inspect(I& f, RolloutUnits& x) {
  RolloutMessage rollout{x.rollout};
  auto kind = static_cast<uint8_t>(x.kind);
  return f(caf::meta::type_name("RolloutUnits"), rollout, x.indices, kind,
           caf::meta::load_callback([&]() -> caf::error {
             if (kind > static_cast<uint8_t>(UnitKind::group)) return caf::sec::invalid_argument;
             x.rollout = rollout.rollout;
             x.kind = static_cast<UnitKind>(kind);
             return caf::none;
           }));
}

template <class I> typename I::result_type inspect(I& f, SuperBatch& x) {
  return f(caf::meta::type_name("SuperBatch"), x.index, x.samples, x.env_steps, x.least_version, x.parts);
}

template <class I> typename I::result_type inspect(I& f, LearnerState& x) {
  using Tensors = std::vector<std::pair<std::string, Array>>;
  Tensors model(x.model.begin(), x.model.end()), optimizer(x.optimizer.begin(), x.optimizer.end());
  std::vector<std::pair<std::string, WireDouble>> scalars(x.scalars.begin(), x.scalars.end());
  return f(caf::meta::type_name("LearnerState"), model, optimizer, scalars,
           caf::meta::load_callback([&]() -> caf::error {
             x.model = {model.begin(), model.end()};
             x.optimizer = {optimizer.begin(), optimizer.end()};
             x.scalars = {scalars.begin(), scalars.end()};
             return caf::none;
           }));
}

struct Attempt {
  uint64_t update = 0;  // its index
  uint64_t number = 0;  // counts all attempts of this start of the run
  friend bool operator==(const Attempt&, const Attempt&) = default;

  template <class I> friend typename I::result_type inspect(I& f, Attempt& x) {
    return f(caf::meta::type_name("Attempt"), x.update, x.number);
  }
};

// To the exchange: what the sender has in a piece of a round.
struct RankSaid {
  Attempt attempt;
  RoundPiece piece;
  RankPart part;

  template <class I> friend typename I::result_type inspect(I& f, RankSaid& x) {
    return f(caf::meta::type_name("RankSaid"), x.attempt, x.piece, x.part);
  }
};

// From the exchange: what all ranks have in it.
struct RoundSaid {
  Attempt attempt;
  RoundPiece piece;
  RoundResult all;

  template <class I> friend typename I::result_type inspect(I& f, RoundSaid& x) {
    return f(caf::meta::type_name("RoundSaid"), x.attempt, x.piece, x.all);
  }
};

// With copies of the moments: those of the sender after the attempt, piece after piece. The exchange passes them on to
// the rank before it, whose update is not complete without them.
struct RankCopy {
  Attempt attempt;
  AdamMoments piece;

  template <class I> friend typename I::result_type inspect(I& f, RankCopy& x) {
    return f(caf::meta::type_name("RankCopy"), x.attempt, x.piece);
  }
};

using ExchangeService = caf::typed_actor<caf::reacts_to<RankSaid>, caf::reacts_to<RankCopy>, caf::reacts_to<Part>>;

// From rank 0: take over this state of the learner, and train the slice of this rank.
struct RankState {
  std::shared_ptr<const LearnerState> learner;  // without moments
  AdamMoments moments;                          // of the slice
  uint64_t rank = 0, ranks = 1;                 // one: the slice is all
  std::vector<AdamMoments> next = {};           // those of the next rank, or none: to keep a copy of them

  template <class I> friend typename I::result_type inspect(I& f, RankState& x) {
    WireShared<LearnerState> learner{x.learner};
    return f(caf::meta::type_name("RankState"), learner, x.moments, x.rank, x.ranks, x.next,
             caf::meta::load_callback([&]() -> caf::error {
               if (x.next.size() > 1) return caf::sec::invalid_argument;
               x.learner = learner.object;
               return caf::none;
             }));
  }
};

// From rank 0, before the RankUpdate of the attempt: the batches of its shards. By itself, because it travels in parts,
// and only CAF can read the handles of actors of other processes.
struct RankSamples {
  Attempt attempt;
  std::vector<std::shared_ptr<const SuperBatch>> batches;

  template <class I> friend typename I::result_type inspect(I& f, RankSamples& x) {
    std::vector<WireShared<SuperBatch>> batches;
    for (const auto& batch : x.batches) batches.push_back({batch});
    return f(caf::meta::type_name("RankSamples"), x.attempt, batches, caf::meta::load_callback([&]() -> caf::error {
               x.batches.clear();
               for (const auto& batch : batches) x.batches.push_back(batch.object);
               return caf::none;
             }));
  }
};

// From rank 0: compute these shards of an update.
struct RankUpdate {
  Attempt attempt;
  double progress = 0;
  ShardRange shards;
  ExchangeService exchange;
  std::vector<Rendezvous> gradients = {};  // the process group that exchanges them, or none

  template <class I> friend typename I::result_type inspect(I& f, RankUpdate& x) {
    WireDouble progress = x.progress;
    return f(caf::meta::type_name("RankUpdate"), x.attempt, progress, x.shards, x.exchange, x.gradients,
             caf::meta::load_callback([&]() -> caf::error {
               if (x.gradients.size() > 1) return caf::sec::invalid_argument;
               x.progress = progress;
               return caf::none;
             }));
  }
};

// To rank 0: the update is complete.
struct RankDone {
  Attempt attempt;
  uint32_t weights = 0;  // crc32c of those that it would publish
  uint64_t samples = 0;  // of its shards

  template <class I> friend typename I::result_type inspect(I& f, RankDone& x) {
    return f(caf::meta::type_name("RankDone"), x.attempt, x.weights, x.samples);
  }
};

// Which moments a rank sends.
enum class MomentsWanted : uint8_t {
  own = 0,     // between two updates: of its slice
  after = 1,   // likewise, and its copy of those of the next rank: a rank is lost
  before = 2,  // the same from before the update under way, which is taken back
};

// To rank 0: the process group of that generation has failed.
struct GradientsFailed {
  uint64_t generation = 0;
  std::string error;
  bool waited = false;  // from rank 0 to itself alone: no rank was lost since then

  template <class I> friend typename I::result_type inspect(I& f, GradientsFailed& x) {
    return f(caf::meta::type_name("GradientsFailed"), x.generation, x.error);
  }
};

// From rank 0: send moments.
struct RankSave {
  uint64_t number = 0;  // counts these requests
  MomentsWanted wanted = MomentsWanted::own;

  template <class I> friend typename I::result_type inspect(I& f, RankSave& x) {
    auto wanted = static_cast<uint8_t>(x.wanted);
    return f(caf::meta::type_name("RankSave"), x.number, wanted, caf::meta::load_callback([&]() -> caf::error {
               if (wanted > static_cast<uint8_t>(MomentsWanted::before)) return caf::sec::invalid_argument;
               x.wanted = static_cast<MomentsWanted>(wanted);
               return caf::none;
             }));
  }
};

// To rank 0: the answer.
struct RankMoments {
  uint64_t number = 0;
  std::vector<AdamMoments> slices;

  template <class I> friend typename I::result_type inspect(I& f, RankMoments& x) {
    return f(caf::meta::type_name("RankMoments"), x.number, x.slices);
  }
};

// From rank 0, which wants to know whether the rank still answers, and has got what was sent before.
struct RankPing {
  uint64_t number = 0;  // of the attempt that the rank takes part in; 0: of none

  template <class I> friend typename I::result_type inspect(I& f, RankPing& x) {
    return f(caf::meta::type_name("RankPing"), x.number);
  }
};

// To rank 0: the answer.
struct RankPong {
  uint64_t number = 0;   // of the RankPing
  uint64_t attempt = 0;  // number of the attempt that the rank has begun

  template <class I> friend typename I::result_type inspect(I& f, RankPong& x) {
    return f(caf::meta::type_name("RankPong"), x.number, x.attempt);
  }
};

// What the other ranks tell rank 0 beside the rounds, and it them.
using RankLead = caf::typed_actor<caf::reacts_to<RankDone>, caf::reacts_to<RankMoments>, caf::reacts_to<RankPong>,
                                  caf::reacts_to<GradientsFailed>, caf::reacts_to<Part>>;
using RankActor = caf::typed_actor<caf::reacts_to<RankState>, caf::reacts_to<RankSamples>, caf::reacts_to<RankUpdate>,
                                   caf::reacts_to<RoundSaid>, caf::reacts_to<RankCopy>, caf::reacts_to<RankSave>,
                                   caf::reacts_to<RankPing>, caf::reacts_to<Part>, caf::reacts_to<Stop>>;

// How a rank process says in a JoinRequest what it is.
inline constexpr const char* kRankKind = "rank";

// A rank process has made its learner. Refused if its model or its environments differ from the run's, or no rank is
// missing.
struct RankReady {
  RankActor rank;
  Signature signature;       // of all tensors of the learner
  SpecFields spec;           // as in a WorkerHello
  std::string address = {};  // of rank 0, as the process has reached it
  uint64_t process = 0;      // its number, from the Welcome

  template <class I> friend typename I::result_type inspect(I& f, RankReady& x) {
    return f(caf::meta::type_name("RankReady"), x.rank, x.signature, x.spec, x.address, x.process);
  }
};

}  // namespace troupe
