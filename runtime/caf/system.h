#pragma once
// The seam to CAF: how an actor system is configured from our own settings, and the few helpers every actor uses. CAF's
// own command line and ini files are never read.

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/error.hpp>
#include <caf/fwd.hpp>
#include <caf/node_id.hpp>
#include <caf/spawn_options.hpp>

#include "runtime/base/errors.h"
#include "runtime/caf/network_config.h"

namespace troupe {

enum class SchedulerKind { threads, single_step };  // single_step: CAF's test coordinator, driven by the caller

struct SystemOptions {
  SchedulerKind scheduler = SchedulerKind::threads;
  size_t threads = 2;
  bool network = false;
  NetworkConfig network_config;
};

// Fills `config` (which must outlive the system). Call before constructing the actor_system.
void configure(caf::actor_system_config& config, const SystemOptions& options);

// Of an error's context; what is longer is cut off.
constexpr size_t kMostErrorBytes = 16384;

// A Fault as a CAF error with a short context, and back.
caf::error make_error(Fault fault, const std::string& context = {});
Fault fault_of(const caf::error& error);
// One line in plain words for users and logs: the context of a fault, what() of an escaped exception, or what CAF's
// code means.
std::string describe(const caf::error& error);

// The Fault (internal or not_restored) of an exception that escaped from a handler, with its what() as context.
caf::error fault_of_exception(const std::exception_ptr& pointer);

// "process 123", of this machine or another.
std::string process_of(const caf::node_id& node);
// The process of `node` if it is another one on the machine of `own`, as far as the ids tell: those of containers on
// two machines may look like those of one.
std::optional<pid_t> process_here(const caf::node_id& own, const caf::node_id& node);

// Drops messages that the actor does not know and errors that answer no request of its own, with a warning under this
// name. They come from other processes. CAF would print the first and answer them with an error, and an error ends an
// actor that does not handle it: a peer could end any actor of a run.
void drop_strange_messages(caf::scheduled_actor* self, const std::string& name);

// Ends the actor with that fault when an exception escapes one of its handlers; nothing that a peer sends does.
template <class Self>
void guard(Self* self) {
  drop_strange_messages(self, self->name());
  self->set_exception_handler([](std::exception_ptr& pointer) { return fault_of_exception(pointer); });
}

// Spawns on a thread of its own, or on the scheduler.
template <class Function, class... Args>
auto spawn_on(caf::actor_system& system, bool own_thread, Function function, Args&&... args) {
  return own_thread ? system.spawn<caf::detached>(function, std::forward<Args>(args)...)
                    : system.spawn(function, std::forward<Args>(args)...);
}

}  // namespace troupe
