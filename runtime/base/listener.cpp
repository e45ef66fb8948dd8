#include "runtime/base/listener.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/base/address.h"
#include "runtime/base/file.h"

namespace troupe {

namespace {

constexpr uint16_t kFirstUnprivilegedPort = 1024;

std::string reason_of(int error, uint16_t port) {
  if (error == EADDRINUSE) return "another program listens on this port; choose another one, or 0 for any free one";
  if (error == EADDRNOTAVAIL) return "this machine has no such address";
  if (error == EACCES && port < kFirstUnprivilegedPort)
    return "ports below 1024 are for privileged users; choose another one, or 0 for any free one";
  if (error == EAFNOSUPPORT) return "this machine does not support this kind of address";
  return ::strerror(error);
}

// The socket, or -1 with errno set.
int listen_at(const addrinfo& at) {
  const int socket = ::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket, at.ai_addr, at.ai_addrlen) == 0 && ::listen(socket, SOMAXCONN) == 0) return socket;
  const int error = errno;
  ::close(socket);
  errno = error;
  return -1;
}

}  // namespace

int open_listener(const std::string& host, uint16_t port) {
  const auto refuse = [&](const std::string& why) -> int {
    throw IoError(address_text(host, port), "cannot listen: " + why);
  };
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(first, &::freeaddrinfo);
  if (failed != 0 || first == nullptr) return refuse("the host name cannot be resolved");
  const addrinfo* chosen = first;
  for (const addrinfo* at = first; at != nullptr && chosen->ai_family != AF_INET; at = at->ai_next)
    if (at->ai_family == AF_INET) chosen = at;
  const int socket = listen_at(*chosen);
  return socket >= 0 ? socket : refuse(reason_of(errno, port));
}

}  // namespace troupe
