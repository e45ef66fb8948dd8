#include "runtime/caf_connect.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "runtime/descriptor.h"

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;

std::string numeric(const addrinfo& at) {
  char text[INET6_ADDRSTRLEN] = "";
  const void* bytes = at.ai_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(at.ai_addr)->sin_addr)
                          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(at.ai_addr)->sin6_addr);
  return ::inet_ntop(at.ai_family, bytes, text, sizeof text) != nullptr ? text : "";
}

// 0 when something accepts the connection, else an errno value.
int try_connect(const addrinfo& at, Clock::time_point until) {
  const Descriptor socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.number() < 0) return errno;
  if (::connect(socket.number(), at.ai_addr, at.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) return ETIMEDOUT;
    pollfd ready{socket.number(), POLLOUT, 0};
    if (::poll(&ready, 1, static_cast<int>(left.count())) > 0) break;
  }
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

caf::result<std::set<std::string>> reach(const std::string& host, uint16_t port, Clock::time_point until) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int unknown = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(first, &::freeaddrinfo);
  if (unknown != 0) return caf::sec::cannot_connect_to_node;
  std::set<std::string> addresses;
  bool reached = false, late = false;
  for (const addrinfo* at = first; at != nullptr; at = at->ai_next) {
    addresses.insert(numeric(*at));
    if (reached || late) continue;
    const int error = try_connect(*at, until);
    reached = error == 0;
    late = Clock::now() >= until;
  }
  if (reached) return addresses;
  return late ? caf::sec::request_timeout : caf::sec::cannot_connect_to_node;
}

}  // namespace

caf::actor detail::spawn_probe(caf::actor_system& system, const std::string& host, uint16_t port,
                               std::chrono::milliseconds deadline) {
  // Hidden: an end of the process does not wait for a name server.
  return system.spawn<caf::detached + caf::hidden>(
      [host, port, until = Clock::now() + deadline](caf::event_based_actor* self) -> caf::behavior {
        return {[self, host, port, until](caf::connect_atom) {
          self->quit();
          return reach(host, port, until);
        }};
      });
}

}  // namespace troupe
