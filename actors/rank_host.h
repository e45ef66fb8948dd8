#pragma once
// RankHost: runs the trainer of one rank in a separate process and keeps it joined to a run. Connects to the run's join
// server, joins, makes a learner, and says that it is ready; then rank 0 sends it the state of the learner and its
// shards of each update. When the connection to the run is lost it joins again. Detached, because making a learner
// blocks. It ends when the run ends or refuses it, when its learner fails, or when it has failed to connect for too
// long.

#include <functional>
#include <memory>
#include <string>

#include "actors/joining.h"
#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/base/route.h"

namespace troupe {

struct RankHostDependencies {
  RunAddress run;
  // Turns the run's config into a context with make_learner; throws ConfigError.
  std::function<RunContextPtr(const std::string& config)> make_context;
  // Called once, with an empty text when the run ended normally, else with a one-line error.
  std::function<void(const std::string& error)> on_end;
  // The addresses through which this process and the host of rank 0 reach each other, for gradients (network.backend);
  // may be empty where they do not travel by themselves. Throws ConfigError.
  std::function<Route(const std::string& host)> route_to = {};
};

struct RankHostState {
  static inline const char* name = "rank host";

  RankHostDependencies dependencies;
  Joining joining;
  RankActor rank;
};

RankHostActor::behavior_type rank_host(SelfPointer<RankHostActor, RankHostState> self,
                                       RankHostDependencies dependencies);

}  // namespace troupe
