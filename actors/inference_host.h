#pragma once
// InferenceHost: runs one inference actor, or one scorer, in a separate process and keeps it joined to a run. Connects
// to the run's join server, joins, sends the signature of its model, and serves with the weights that arrive over the
// weight plane, starting with the current ones; a scorer that needs none serves at once. When the connection to the
// run, the weight transfer or the inference actor fails, it joins again as a new receiver. Detached, because preparing
// to serve blocks. It ends when the run ends or refuses it, when it has failed to connect for too long, or when the run
// drops it kMaxFruitless times in a row before it got any weights.

#include <functional>
#include <memory>
#include <string>

#include "actors/joining.h"
#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/base/route.h"
#include "runtime/weights/receiver.h"

namespace troupe {

constexpr int kMaxFruitless = 3;

struct InferenceHostDependencies {
  RunAddress run;
  // Turns the run's config into policies and a group backend; throws ConfigError.
  std::function<RunContextPtr(const std::string& config)> make_context;
  // The network route from this machine to the run's host; throws ConfigError.
  std::function<Route(const std::string& host)> route_to;
  // Called once, with an empty text when the run ended normally, else with a one-line error.
  std::function<void(const std::string& error)> on_end;
  Role role = Role::sampling;  // of the inference actor
};

struct InferenceHostState {
  static inline const char* name = "inference host";
  ~InferenceHostState();

  InferenceHostDependencies dependencies;
  Joining joining;
  InferenceIndex inference_index = 0;
  InferenceActor inference;
  WeightReceiverActor receiver_actor;
  std::shared_ptr<WeightReceiver> receiver;
  bool serving = false;
  int fruitless = 0;
};

InferenceHostActor::behavior_type inference_host(SelfPointer<InferenceHostActor, InferenceHostState> self,
                                                 InferenceHostDependencies dependencies);

}  // namespace troupe
