#pragma once
// RankExchange: in the process of rank 0, puts together what the ranks say in the rounds of an update, and sends each
// of them the result. It works beside rank 0's trainer, so that gradients are added up and sent while others are still
// computed. Spawned by that trainer.

#include <optional>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/run_context.h"
#include "models/shards/gradient_pieces.h"
#include "models/shards/rank_round.h"

namespace troupe {

struct RankExchangeState {
  static inline const char* name = "rank exchange";

  RunContextPtr context;
  ExchangeOwner owner;
  ExchangeAttempt attempt;           // the one under way, or the last one
  std::optional<RankRounds> rounds;  // of it
  // Where each rank trains a slice of the parameters:
  std::optional<GradientPieces> pieces;
  std::vector<ElementRange> slices;  // by rank
  PartAssembler parts;
  uint64_t streams = 0;
};

RankExchangeActor::behavior_type rank_exchange(SelfPointer<RankExchangeActor, RankExchangeState> self,
                                               RunContextPtr context, ExchangeOwner owner);

}  // namespace troupe
