// `troupe node`: starts workers on this machine when `troupe spawn` asks for them.

#include <unistd.h>

#include <memory>

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages.h"
#include "actors/network_messages.h"
#include "actors/run_context.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/output.h"
#include "runtime/base/text_format.h"
#include "runtime/caf/connect.h"
#include "runtime/caf/listen.h"
#include "tools/cli/child_processes.h"
#include "tools/cli/command.h"
#include "tools/cli/launch.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/worker_process.h"

namespace troupe {
namespace {

struct NodeOptions {
  Address listen;
};

NodeOptions read_node(Flags& flags) {
  NodeOptions options;
  flags.required_option("--listen", "HOST:PORT", options.listen, parse_listen_address,
                        "address at which `troupe spawn` reaches this node; a port alone means 127.0.0.1");
  flags.read();
  return options;
}

constexpr uint32_t kMaxWorkersPerRequest = ChildProcesses::kMost;
constexpr std::chrono::seconds kDeadline{5};
// A SpawnRequest and the messages of a new connection have a few hundred bytes; a host name has at most 255.
constexpr size_t kRequestBytes = 16 << 10;
constexpr size_t kConnections = 256;
constexpr std::chrono::milliseconds kPatience =
    kFarewell + std::chrono::milliseconds(500);  // how long workers get to end when the node stops

constexpr uint32_t kMostAtOnce = 32;  // requests whose runs the node connects to at a time, each with a thread

struct NodeState {
  static inline const char* name = "node";
  NodeActor starter;
  uint32_t reaching = 0;
};

using NodeSelf = NodeActor::stateful_pointer<NodeState>;

// Starts the processes, which takes some milliseconds each. Detached.
NodeActor::behavior_type starter(NodeActor::pointer self, const std::shared_ptr<ChildProcesses>& children) {
  guard(self);
  return {[children](const SpawnRequest& request) -> caf::result<uint32_t> {
    const std::string run = Address{request.host, request.port}.text();
    const auto started = children->start({program_folder() + "/troupe", "worker", "--connect", run}, request.workers);
    log_info("node", format_counted(started.count, "worker") + " for " + run);
    if (!started.error.empty())
      return make_error(Fault::internal, std::to_string(started.count) + " of " + std::to_string(request.workers) +
                                             " workers started: " + started.error);
    return static_cast<uint32_t>(started.count);
  }};
}

// Starts the workers once the run has answered, so that a wrong address is reported to the sender of the request.
caf::result<uint32_t> start_workers(NodeSelf self, const SpawnRequest& request) {
  if (request.protocol != kProtocolVersion)
    return make_error(Fault::bad_message, "the node speaks protocol " + std::to_string(kProtocolVersion) + ", not " +
                                              std::to_string(request.protocol));
  if (request.workers == 0 || request.workers > kMaxWorkersPerRequest)
    return make_error(Fault::bad_message, "workers is " + std::to_string(request.workers) + ", expected 1 to " +
                                              std::to_string(kMaxWorkersPerRequest));
  if (self->state.reaching == kMostAtOnce)
    return make_error(Fault::not_ready, "the node is looking for the runs of " + std::to_string(kMostAtOnce) +
                                            " other requests; ask again");
  ++self->state.reaching;
  auto promise = std::make_shared<caf::typed_response_promise<uint32_t>>(self->make_response_promise<uint32_t>());
  const auto start = [self, request, promise](const JoinService&) {
    --self->state.reaching;
    promise->delegate(self->state.starter, request);
  };
  const auto refuse = [self, promise](const std::string& why) {
    --self->state.reaching;
    promise->deliver(make_error(Fault::peer_gone, why));
  };
  connect_to<JoinService>(static_cast<NodeActor::base*>(self), request.host, request.port, kDeadline, start, refuse);
  return *promise;
}

NodeActor::behavior_type node(NodeSelf self, NodeActor starter) {
  guard(self);
  self->link_to(starter);
  self->state.starter = std::move(starter);
  return {[self](const SpawnRequest& request) { return start_workers(self, request); }};
}

int run_node(const NodeOptions& options) {
  StopSignals signals;
  signals.begin({});
  open_log(nullptr, {.stderr_level = LogLevel::info});
  std::string failure;  // of the node's actors, which end only with an error; written before signals.end()
  return with_network(1, /*more=*/3, {}, [&](caf::actor_system& system) {
    const auto children = std::make_shared<ChildProcesses>();
    const NodeActor actor = system.spawn(node, system.spawn<caf::detached>(starter, children));
    caf::actor_cast<caf::strong_actor_ptr>(actor)->get()->attach_functor([&](const caf::error& why) {
      failure = describe(why);
      signals.end();
    });
    const uint16_t port = listen(
        system, actor, options.listen.host, options.listen.port, messages_to_node(),
        {.message_bytes = kRequestBytes, .buffer_bytes = kRequestBytes * kConnections, .connections = kConnections});
    print_line("node listening on " + Address{options.listen.host, port}.text());
    const bool asked = signals.wait();
    if (!asked) print_error("troupe: the node failed: " + failure);
    children->stop(kPatience);
    _exit(asked ? kExitInterrupted : kExitFailure);
    return kExitFailure;
  });
}

}  // namespace

Command node_command() {
  return {.name = "node",
          .summary = "wait for requests to start workers on this machine",
          .examples =
              "  troupe node --listen 5556\n"
              "  troupe node --listen 0.0.0.0:5556\n",
          .exit_codes = {{1, "the node failed"},
                         {2, "a mistake in the command"},
                         {130, "stopped by a signal: the only normal end"}},
          .parse = read_then_run<read_node, run_node>};
}

}  // namespace troupe
