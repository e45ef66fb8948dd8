#pragma once
// Trainer: takes a ready super-batch, runs the update, hands the new weights on. Detached. Never waits for data while a
// prefetched batch is ready, nor for receivers of weights, nor for the disk.

#include <chrono>
#include <memory>

#include "actors/messages.h"
#include "actors/wiring.h"

namespace troupe {

struct TrainerPeers {
  PrefetcherActor prefetcher;
  ReplayActor replay;
  PublisherActor publisher;
  RecorderActor recorder;
  EvaluatorActor evaluator;
  StatsActor stats;
  caf::typed_actor<caf::reacts_to<TrainingEnded>> supervisor;
};

struct TrainerState {
  static inline const char* name = "trainer";
  using Clock = std::chrono::steady_clock;

  WiringPtr wiring;
  std::shared_ptr<Learner> learner;
  TrainerPeers peers;
  PolicyVersion version;
  uint64_t env_steps = 0;
  uint64_t skipped_in_a_row = 0;
  Clock::time_point started, asked;
  bool ended = false;
};

TrainerActor::behavior_type trainer(TrainerActor::stateful_pointer<TrainerState> self, WiringPtr wiring,
                                    std::shared_ptr<Learner> learner, PolicyVersion version, uint64_t env_steps,
                                    TrainerPeers peers);

}  // namespace troupe
