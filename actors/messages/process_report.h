#pragma once
// What a process that has joined a run reports of its actors. This message crosses the network.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/caf/inspect.h"

namespace troupe {

// Of all actors of a kind, as ActorBoard::Figures.
struct ActorReport {
  std::string kind;
  uint64_t actors = 0, busy_us = 0, blocked_us = 0;
  uint64_t oldest_us = 0;

  template <class I> friend typename I::result_type inspect(I& f, ActorReport& x) {
    return f(caf::meta::type_name("ActorReport"), x.kind, x.actors, x.busy_us, x.blocked_us, x.oldest_us);
  }
};

// To stats, at intervals, from a worker or an inference actor of the process. If it has several, each sends it.
struct ProcessReport {
  std::vector<ActorReport> actors;

  template <class I> friend typename I::result_type inspect(I& f, ProcessReport& x) {
    return f(caf::meta::type_name("ProcessReport"), x.actors);
  }
};

}  // namespace troupe
