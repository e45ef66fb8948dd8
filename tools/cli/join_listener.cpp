#include "tools/cli/join_listener.h"

#include <algorithm>
#include <set>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/io/middleman.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <nlohmann/json.hpp>

#include "actors/network_messages.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/machine.h"
#include "runtime/caf/system.h"

namespace troupe {
namespace {

constexpr uint64_t kMaxEndpointsBytes = 1 << 16;

// The address at which an earlier, killed start of this run listened. If this start listens there too, the workers find
// it. Nothing if no start was killed: endpoints.json is removed at a normal end.
std::optional<Address> address_left_behind(const std::string& folder, const std::string& host) {
  try {
    const std::string text = posix_disk().read(folder + "/endpoints.json", kMaxEndpointsBytes);
    Address address = parse_address("workers", nlohmann::json::parse(text).at("workers").get<std::string>());
    if (address.host == host) return address;
  } catch (const std::exception&) {
    return {};
  }
  return {};
}

struct TurningAwayState {
  static inline const char* name = "turning away";
  std::set<caf::actor_addr> told;
  size_t left = 0;
  std::function<void()> done;
};

// Gets the requests to join in place of a supervisor.
caf::behavior turning_away(caf::stateful_actor<TurningAwayState>* self, size_t count, std::chrono::seconds limit,
                           std::function<void()> done) {
  guard(self);
  self->state.left = count;
  self->state.done = std::move(done);
  const auto end = [self] {
    if (self->state.done) std::exchange(self->state.done, nullptr)();
  };
  self->set_down_handler([self, end](const caf::down_msg&) {
    if (--self->state.left == 0) end();
  });
  self->delayed_send(self, limit, due_atom_v);
  return {
      [self](const JoinRequest&) -> caf::result<Welcome> {
        if (self->current_sender() && self->state.told.insert(self->current_sender()->address()).second)
          self->monitor(caf::actor_cast<caf::actor>(self->current_sender()));
        return make_error(Fault::shutting_down, "the run is finished");
      },
      [end](due_atom) { end(); },
  };
}

constexpr size_t kMessageOverhead = 1 << 20;
constexpr size_t kLargestMessages = 64;  // that the buffers hold together at least, even if memory is scarce

// The limits on memory that peers can make this process use. Arrays above network.chunk_bytes come in parts. A message
// also has lists, such as those of ended episodes, which can be larger than its arrays.
ListenLimits limits_of(const NetworkConfig& network) {
  const size_t message = 4 * static_cast<size_t>(network.chunk_bytes) + kMessageOverhead;
  return {.message_bytes = message,
          .buffer_bytes = std::max<size_t>(kLargestMessages * message, available_memory() / 8)};
}

}  // namespace

JoinListener::JoinListener(caf::actor_system& system, const Address& at, const ListenLimits& limits)
    : system_(system),
      server_(system.spawn(join_server)),
      address_{at.host, listen(system, JoinService(server_), at.host, at.port, messages_to_run(), limits)} {}

JoinListener::~JoinListener() {
  system_.middleman().unpublish(caf::actor_cast<caf::actor>(server_), address_.port);
  caf::anon_send_exit(server_, caf::exit_reason::user_shutdown);
  if (turning_away_) caf::anon_send_exit(turning_away_, caf::exit_reason::user_shutdown);
}

void JoinListener::lead_to(const SupervisorActor& supervisor) const {
  caf::anon_send(server_, begin_atom_v, caf::actor_cast<caf::actor>(supervisor));
}

void JoinListener::turn_away(size_t count, std::chrono::seconds limit, std::function<void()> done) {
  turning_away_ = system_.spawn(turning_away, count, limit, std::move(done));
  caf::anon_send(server_, begin_atom_v, turning_away_);
}

uint16_t open_join_listener(std::optional<JoinListener>& listener, caf::actor_system& system, const Address& at,
                            const std::string& folder, const NetworkConfig& network) {
  const ListenLimits limits = limits_of(network);
  const std::optional<Address> before = at.port == 0 ? address_left_behind(folder, at.host) : std::nullopt;
  try {
    listener.emplace(system, before.value_or(at), limits);
    return 0;
  } catch (const ConfigError&) {
    if (!before) throw;
  }
  listener.emplace(system, at, limits);
  return before->port;
}

}  // namespace troupe
