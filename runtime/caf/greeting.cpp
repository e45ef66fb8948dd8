#include "runtime/caf/greeting.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string_view>
#include <system_error>

#include "runtime/base/descriptor.h"
#include "runtime/base/suggest.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFirstBytes = 256;  // enough to tell
constexpr size_t kQuotedBytes = 40;  // of what another program says
constexpr std::chrono::seconds kSpeaksFirst{2};
constexpr std::string_view kQuestion = "{\"type\":\"ping\"}\n";  // of the statistics port
constexpr char kServerHandshake = 0;  // the first byte that CAF sends, before any readable text

// Whether the socket is ready before the deadline.
bool is_ready(const Descriptor& socket, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ready{socket.number(), events, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (count > 0) return true;
    if (count == 0 || errno != EINTR) return false;
  }
}

// Null when the connection fails, with errno set.
Descriptor connect_to_address(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* first = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &first) != 0) {
    errno = EADDRNOTAVAIL;
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(first, &::freeaddrinfo);
  Descriptor socket(::socket(first->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.number() < 0) return {};
  if (::connect(socket.number(), first->ai_addr, first->ai_addrlen) != 0 && errno != EINPROGRESS) return {};
  return socket;
}

std::string first_line(std::string_view said) {
  return printable(std::string(said.substr(0, std::min(said.find_first_of("\r\n"), kQuotedBytes))), kQuotedBytes);
}

caf::error judge(std::string_view said) {
  if (said.front() == kServerHandshake) return {};
  if (said.starts_with(R"({"type":"hello")"))
    return make_error(Fault::bad_message, "the statistics port of a troupe run answers there");
  return make_error(Fault::bad_message, "another program answers there, with \"" + first_line(said) + '"');
}

}  // namespace

caf::error await_greeting(const std::string& address, uint16_t port, Clock::time_point deadline) {
  const Descriptor socket = connect_to_address(address, port);
  if (socket.number() < 0) return make_error(Fault::peer_gone, std::generic_category().message(errno));
  // A run's port for workers speaks first, its statistics port and other programs only when they are asked.
  if (!is_ready(socket, POLLIN, std::min(deadline, Clock::now() + kSpeaksFirst)))
    ::send(socket.number(), kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (!is_ready(socket, POLLIN, deadline))
    return make_error(Fault::not_ready,
                      "no answer in time; whatever accepts connections there says nothing, as an HTTP server, the "
                      "weights port of a run, or a run that hangs");
  char bytes[kFirstBytes];
  const ssize_t count = ::recv(socket.number(), bytes, sizeof bytes, 0);
  if (count > 0) return judge({bytes, static_cast<size_t>(count)});
  if (count < 0 && errno != ECONNRESET) return make_error(Fault::peer_gone, std::generic_category().message(errno));
  return make_error(Fault::not_ready,
                    "it closed the connection at once: another program, or a troupe process that has as many "
                    "connections as it takes");
}

}  // namespace troupe
