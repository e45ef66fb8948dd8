// `troupe spawn`: asks a node to start workers for a run.

#include <chrono>
#include <set>
#include <string>

#include <caf/scoped_actor.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages.h"
#include "runtime/base/errors.h"
#include "runtime/base/output.h"
#include "runtime/base/text_format.h"
#include "runtime/caf/connect.h"
#include "runtime/caf/system.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/launch.h"
#include "tools/cli/worker_process.h"

namespace troupe {
namespace {

struct SpawnOptions {
  Address node;
  int64_t workers = 1;
  Address run;
};

SpawnOptions read_spawn(Flags& flags) {
  SpawnOptions options;
  flags.required_option("--node", "HOST:PORT", options.node, parse_address, "address of a `troupe node`");
  flags.required_option("--workers", "N", options.workers, integer_in(1, 1024), "workers to start there");
  flags.required_option("--run", "HOST:PORT", options.run, parse_address,
                        "address of the run that they join, as seen from the node");
  flags.read();
  return options;
}

constexpr std::chrono::seconds kSpawnDeadline{5};
constexpr std::chrono::milliseconds kPerWorker{100};  // to start its process, on a busy machine

int run_spawn(const SpawnOptions& options) {
  return with_network(1, /*more=*/1, {}, [&](caf::actor_system& system) {
    caf::scoped_actor self(system);
    std::string error;
    bool mistake = true;  // of the user, so exit code 2; otherwise the node failed, so exit code 1
    const SpawnRequest request{kProtocolVersion, static_cast<uint32_t>(options.workers), options.run.host,
                               options.run.port};
    const auto node_port = options.node.port;
    const std::string node = options.node.text();
    const auto fail = [&](const caf::error& e) { error = "--node " + node + ": " + describe(e); };
    // The node reports that it cannot reach the run; its error names the address of the run.
    const auto refuse = [&](const caf::error& e) {
      fail(e);
      if (fault_of(e) == Fault::peer_gone) error = "--run " + describe(e) + "; the node " + node + " tried it";
      mistake = fault_of(e) == Fault::peer_gone || fault_of(e) == Fault::bad_message;
    };
    NodeActor node_actor;
    const auto connect = [&](const std::string&, caf::io::scribe_ptr& connection) {
      const auto problem = problem_of(*connection);
      connect_over(self.ptr(), std::move(connection), node_port, kSpawnDeadline)
          .receive(
              [&](const caf::node_id&, caf::strong_actor_ptr& actor, const std::set<std::string>& interface) {
                if (actor && system.assignable(interface, system.message_types(caf::detail::type_list<NodeActor>{}))) {
                  node_actor = caf::actor_cast<NodeActor>(actor);
                } else {
                  error = "--node " + node + ": a troupe process answers there, but it is not a `troupe node`";
                }
              },
              [&](const caf::error& e) {
                fail(e);
                if (const std::string why = problem(); !why.empty()) error = "--node " + node + ": it " + why;
              });
    };
    self->request(spawn_connector(system, options.node.host, node_port, kSpawnDeadline),
                  kSpawnDeadline + kConnectorMargin, caf::connect_atom_v)
        .receive(connect, [&](const caf::error& e) {
          error = "--node " + node + ": cannot connect: " + describe(e);
          if (fault_of(e) == Fault::bad_message) error += "; `troupe node` prints its address";
        });
    if (node_actor)
      self->request(node_actor, 2 * kSpawnDeadline + request.workers * kPerWorker, request)
          .receive([&](uint32_t started) { print_line(format_counted(started, "worker") + " started on " + node); },
                   refuse);
    if (error.empty()) return 0;
    if (mistake) throw ConfigError(error);
    print_error("troupe: " + error);
    return kExitFailure;
  });
}

}  // namespace

Command spawn_command() {
  return {.name = "spawn",
          .summary = "ask a node to start workers for a run",
          .examples = "  troupe spawn --node 10.0.0.7:5556 --workers 8 --run 10.0.0.2:5555\n",
          .exit_codes = {{0, "all workers were started"},
                         {kExitFailure, "the node could not start all workers"},
                         {2, "a mistake in the command, or the node or the run could not be reached"}},
          .parse = read_then_run<read_spawn, run_spawn>};
}

}  // namespace troupe
