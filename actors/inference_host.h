#pragma once
// InferenceHost: keeps one inference actor joined to a run from a process of its own. Connects to the run's join
// server, joins, shows the signature of its model, and serves with the weights that come over the weight plane,
// the current ones first. When the run, its weights or the inference actor is lost it starts over, as a new receiver.
// Detached, because preparing to serve takes its time. It ends when the run ends or refuses it, when its patience ends,
// or when it is set aside kMaxFruitless times in a row before it got any weights.

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
  // How this machine reaches the run's; throws ConfigError.
  std::function<Route(const std::string& host)> route_to;
  // Called once, with an empty text when the run ended in order, else with one line.
  std::function<void(const std::string& error)> on_end;
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

InferenceHostActor::behavior_type inference_host(InferenceHostActor::stateful_pointer<InferenceHostState> self,
                                                 InferenceHostDependencies dependencies);

}  // namespace troupe
