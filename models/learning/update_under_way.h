#pragma once
// UpdateUnderWay: how far a learner is with its update. A plain value of update_learner.cpp.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/learning/metrics.h"
#include "models/learning/objective.h"
#include "models/learning/update_settings.h"
#include "models/policy.h"
#include "runtime/stats/stage_seconds.h"

namespace troupe {

struct UpdateUnderWay {
  enum class Phase : uint8_t { all, value_alone, trained };  // trained: advance() has said that it is done
  // What advance() does next.
  enum class Next : uint8_t { targets, epoch, step, backward, gradients, squares, parameters };

  double progress = 0;
  UpdateSettings settings, of_step;
  UpdateReport report;
  EpochInput input;
  EpochReport epoch;               // the one under way
  EpochReport reported;            // the last of the phase `all`
  uint64_t key = 0;                // of its minibatches
  size_t minibatches = 0;          // of it
  size_t minibatch = 0;            // the next one, or the one under way
  std::vector<size_t> parts = {};  // of each micro-batch of the step under way
  size_t micro_batch = 0;          // the one under way
  size_t part = 0;                 // the next one, of the step
  size_t left = 0;                 // parts of the micro-batch
  Phase phase = Phase::all;
  Next next = Next::targets;
  uint64_t round = 0;      // of what the ranks say: the one under way, or the next one
  size_t open = 0;         // its pieces that have not come yet
  RoundResult heard = {};  // what all said in the last one of shards, but gradients
  std::vector<std::pair<RoundPiece, RoundResult>> early = {};  // of the next round
  StageClock clock;

  void put_off(const RoundPiece& piece, RoundResult all) { early.emplace_back(piece, std::move(all)); }
};

}  // namespace troupe
