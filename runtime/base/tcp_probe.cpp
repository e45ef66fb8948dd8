#include "runtime/base/tcp_probe.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "runtime/base/descriptor.h"

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;

std::string numeric(const addrinfo& at) {
  char text[NI_MAXHOST] = "";
  const int unknown = ::getnameinfo(at.ai_addr, at.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return unknown == 0 ? text : "";
}

// 0 if the connection is accepted, otherwise an errno value.
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

}  // namespace

TcpProbe probe_tcp(const std::string& host, uint16_t port, Clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int unknown = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(first, &::freeaddrinfo);
  if (unknown != 0) {
    const std::string reason = ::gai_strerror(unknown);
    return {.address = "", .problem = "the host name cannot be resolved: " + reason, .unknown_host = true};
  }

  TcpProbe result;
  int untried = 0;
  for (const addrinfo* at = first; at != nullptr; at = at->ai_next) ++untried;
  for (const addrinfo* at = first; at != nullptr; at = at->ai_next, --untried) {
    const Clock::time_point now = Clock::now();
    const int error = try_connect(*at, now + (deadline - now) / untried);
    if (error == 0) return {.address = numeric(*at), .problem = ""};
    result.problem = std::generic_category().message(error);
  }
  result.late = Clock::now() >= deadline;
  return result;
}

}  // namespace troupe
