#include <unistd.h>

#include <memory>

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages.h"
#include "actors/network_messages.h"
#include "actors/run_context.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/output.h"
#include "runtime/caf/connect.h"
#include "runtime/caf/listen.h"
#include "tools/cli/child_processes.h"
#include "tools/cli/commands.h"
#include "tools/cli/launch.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/worker_process.h"

namespace troupe {
namespace {

constexpr uint32_t kMaxWorkersPerRequest = ChildProcesses::kMost;
constexpr std::chrono::seconds kDeadline{5};
// A SpawnRequest and what processes tell each other when they meet are a few hundred bytes; a host name has at most 255.
constexpr size_t kRequestBytes = 16 << 10;
constexpr size_t kConnections = 256;
constexpr std::chrono::milliseconds kPerWorker{100};  // to start its process, on a busy machine
constexpr std::chrono::milliseconds kPatience = kFarewell + std::chrono::milliseconds(500);  // with workers at the end

constexpr uint32_t kMostAtOnce = 32;  // requests whose runs are being reached, a thread each

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
    log_info("node", std::to_string(started.count) + " workers for " + run);
    if (!started.error.empty())
      return make_error(Fault::internal, std::to_string(started.count) + " of " + std::to_string(request.workers) +
                                             " workers started: " + started.error);
    return static_cast<uint32_t>(started.count);
  }};
}

// Starts the workers once the run has answered, so that a wrong address reaches whoever asked.
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

}  // namespace

int run_node(const NodeOptions& options) {
  StopSignals signals;
  signals.begin({});
  open_log(nullptr, {.stderr_level = LogLevel::info});
  std::string failure;  // of the node's actors, which end only by one; written before signals.end()
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

int run_spawn(const SpawnOptions& options) {
  return with_network(1, /*more=*/1, {}, [&](caf::actor_system& system) {
    caf::scoped_actor self(system);
    std::string error;
    const SpawnRequest request{kProtocolVersion, static_cast<uint32_t>(options.workers), options.run.host,
                               options.run.port};
    const auto node_port = options.node.port;
    const std::string node = options.node.text();
    const auto fail = [&](const caf::error& e) { error = "--node " + node + ": " + describe(e); };
    // The node says so of the run, whose address is in its text.
    const auto refuse = [&](const caf::error& e) {
      fail(e);
      if (fault_of(e) == Fault::peer_gone) error = "--run " + describe(e) + "; the node " + node + " tried it";
    };
    NodeActor node_actor;
    const auto connect = [&](const std::string& address) {
      self->request(system.middleman().actor_handle(), kDeadline, caf::connect_atom_v, address, node_port)
          .receive(
              [&](const caf::node_id&, caf::strong_actor_ptr& actor, const std::set<std::string>& interface) {
                if (actor && system.assignable(interface, system.message_types(caf::detail::type_list<NodeActor>{}))) {
                  node_actor = caf::actor_cast<NodeActor>(actor);
                } else {
                  error = "--node " + node + ": a troupe process answers there, but it is not a `troupe node`";
                }
              },
              fail);
    };
    self->request(spawn_probe(system, options.node.host, node_port, kDeadline), kDeadline + kProbeMargin,
                  caf::connect_atom_v)
        .receive(connect, [&](const caf::error& e) { error = "--node " + node + ": cannot connect: " + describe(e); });
    if (node_actor)
      self->request(node_actor, 2 * kDeadline + request.workers * kPerWorker, request)
          .receive([&](uint32_t started) { print_line(std::to_string(started) + " workers started on " + node); },
                   refuse);
    if (!error.empty()) throw ConfigError(error);
    return 0;
  });
}

}  // namespace troupe
