#include "runtime/base/route.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  const int failed = getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  if (failed != 0) throw ConfigError(std::string("an address cannot be shown: ") + gai_strerror(failed));
  return text;
}

}  // namespace

Route route_to(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), "9", &hints, &found);
  if (failed != 0) throw ConfigError(host + ": " + gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    // Connecting a datagram socket only chooses the interface.
    const int fd = ::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    const bool reached = fd >= 0 && ::connect(fd, each->ai_addr, each->ai_addrlen) == 0 &&
                         ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0;
    if (!reached) error = errno;
    if (fd >= 0) ::close(fd);
    if (reached)
      return {numeric(reinterpret_cast<sockaddr*>(&local), length), numeric(each->ai_addr, each->ai_addrlen)};
  }
  throw ConfigError(host + ": cannot be reached: " + std::generic_category().message(error));
}

}  // namespace troupe
