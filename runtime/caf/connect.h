#pragma once
// Connecting to an actor of another process with a deadline, and a check that it has the expected type.

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <system_error>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/scribe.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/base/address.h"
#include "runtime/caf/broker.h"
#include "runtime/caf/keep_alive.h"
#include "runtime/caf/system.h"

namespace troupe {

// An actor that, asked with connect_atom, answers with the numeric address at which a troupe process has answered on a
// host's `port`, and an open connection to it, for connect_over(); or with an error at the deadline: Fault::io_failed
// when the name cannot be resolved, Fault::peer_gone when no address accepts the connection, those of await_greeting()
// when something else answers. It blocks its own thread, because CAF connects on the one thread of all its connections,
// where an address that does not answer would delay every other connection for minutes. Throws std::system_error when
// no thread can be started.
caf::actor spawn_connector(caf::actor_system& system, const std::string& host, uint16_t port,
                           std::chrono::milliseconds deadline);

// A function that says why this process closed the connection during the handshake: what the peer did, as text that
// continues "it ..."; empty if it did not close it. For a connection of spawn_connector(). Any thread may call it.
std::function<std::string()> problem_of(const caf::io::scribe& connection);

// Asks CAF for the actor that the peer of a new connection publishes: the answer is the peer's node, the actor (null
// when it publishes none), and the names of the messages that the actor takes.
template <class Self>
auto connect_over(Self* self, caf::io::scribe_ptr connection, uint16_t port, std::chrono::milliseconds deadline) {
  const auto broker = caf::actor_cast<caf::actor>(broker_of(self->system()));
  return self->request(broker, deadline, caf::connect_atom_v, std::move(connection), port);
}

inline constexpr const char* kRightAddress = "`troupe train` prints the right address in its line `workers`";

// Extra time for the connector's answer at its deadline.
inline constexpr std::chrono::milliseconds kConnectorMargin{500};

// Asks CAF to connect from inside an event-based actor. Exactly one of the three is called, on the actor: `ok` with a
// handle; `wrong` when something else answers there, so that another attempt is useless; or `failed`. The last two get
// one line that says why.
template <class Handle, class Self, class Ok, class Failed, class Wrong>
void connect_to(Self* self, const std::string& host, uint16_t port, std::chrono::milliseconds deadline, const Ok& ok,
                const Failed& failed, const Wrong& wrong) {
  const std::string where = address_text(host, port);
  const auto until = std::chrono::steady_clock::now() + deadline;
  const auto give_up = [=](const caf::error& error) {
    const bool nobody = fault_of(error) == Fault::peer_gone || error == caf::sec::cannot_connect_to_node;
    const std::string why = where + ": cannot connect: " + describe(error) +
                            (nobody ? " (has the run started?)" : std::string("; ") + kRightAddress);
    fault_of(error) == Fault::bad_message ? wrong(why) : failed(why);
  };
  const auto connect = [=](const std::string& address, caf::io::scribe_ptr& connection) {
    constexpr std::chrono::milliseconds kLeast{100};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const auto problem = problem_of(*connection);
    connect_over(self, std::move(connection), port, std::max(left, kLeast))
        .then(
            [=](const caf::node_id&, caf::strong_actor_ptr& actor, const std::set<std::string>& interface) {
              if (!actor) {
                failed(where + ": a troupe process answers, but no run is open there");
              } else if (!self->system().assignable(interface,
                                                    self->system().message_types(caf::detail::type_list<Handle>{}))) {
                wrong(where +
                      ": a troupe process answers there that is not a run, such as a `troupe node`, or that has "
                      "another version; " +
                      kRightAddress);
              } else {
                ok(caf::actor_cast<Handle>(actor));
              }
            },
            [=](const caf::error& error) {
              if (error == caf::sec::request_timeout) abandon_connects(self->system(), address, port);
              const std::string why = problem();
              give_up(why.empty() ? error : make_error(Fault::not_ready, "it " + why));
            });
  };
  try {
    self->request(spawn_connector(self->system(), host, port, deadline), deadline + kConnectorMargin,
                  caf::connect_atom_v)
        .then(connect, give_up);
  } catch (const std::system_error& error) {
    failed(where + ": cannot start a thread to connect: " + error.code().message());
  }
}

// The same with one callback for both kinds of failure.
template <class Handle, class Self, class Ok, class Failed>
void connect_to(Self* self, const std::string& host, uint16_t port, std::chrono::milliseconds deadline, const Ok& ok,
                const Failed& failed) {
  connect_to<Handle>(self, host, port, deadline, ok, failed, failed);
}

}  // namespace troupe
