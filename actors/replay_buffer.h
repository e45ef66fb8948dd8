#pragma once
// ReplayBuffer: the actor around ReplayStore. Event-based, never blocks. It books what workers push, hands super-batches to the
// prefetcher, gives credits, and asserts the ledger at every report and checkpoint.

#include <optional>
#include <set>

#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/replay_store.h"
#include "actors/wiring.h"

namespace troupe {

struct ReplayState {
  static inline const char* name = "replay";
  std::optional<ReplayStore> store;
  bool in_turns = false;  // a deterministic run
  StatsActor stats;
  RecorderActor recorder;
  std::map<uint64_t, CreditHolder> workers;       // by worker id
  std::map<caf::actor_addr, uint64_t> worker_of;  // for down messages
  std::map<caf::actor_addr, uint64_t> receiver_of;
  std::set<uint64_t> gone;           // receivers that no longer count, whatever they still say
  caf::strong_actor_ptr prefetcher;  // asked for a batch and waits
  PartAssembler parts;
  std::vector<std::pair<uint64_t, uint32_t>> lags;  // since the last report
  bool training_ended = false;                      // what workers still leave behind is nobody's loss
  bool stopping = false;                            // waits for the last words of the workers, who stop too
};

// `start` is where a resumed run stands: the version training goes on from, environment steps and ledger so far.
struct ReplayStart {
  PolicyVersion version;
  uint64_t env_steps = 0;
  Ledger ledger;
};

ReplayActor::behavior_type replay_buffer(ReplayActor::stateful_pointer<ReplayState> self, WiringPtr wiring,
                                         ReplayStart start, StatsActor stats, RecorderActor recorder);

}  // namespace troupe
