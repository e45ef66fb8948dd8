#include "tools/top/client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

constexpr std::array kRetries = {std::chrono::milliseconds(250), std::chrono::milliseconds(500),
                                 std::chrono::milliseconds(1000), std::chrono::milliseconds(2000)};

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace

short StatsClient::events() const {
  if (state_ == State::connecting) return POLLOUT;
  return static_cast<short>(queued_.empty() ? POLLIN : POLLIN | POLLOUT);
}

std::vector<std::string> StatsClient::step(Clock::time_point now) {
  if (now >= due_) {
    if (state_ == State::waiting)
      connect(now);
    else
      drop(state_ == State::open ? "says nothing: not the statistics port of a run" : error_text(ETIMEDOUT), now);
  }
  if (state_ == State::connecting) finish_connecting(now);
  if (state_ != State::open) return {};
  write_queued(now);
  return state_ == State::open ? read_lines(now) : std::vector<std::string>();
}

void StatsClient::send(const std::string& message) { queued_ += message + '\n'; }

void StatsClient::drop(const std::string& why, Clock::time_point now) {
  socket_ = Descriptor();
  state_ = State::waiting;
  problem_ = where_.empty() ? why : where_ + ": " + why;
  queued_.clear();
  received_.clear();
  due_ = now + kRetries[std::min<size_t>(failures_++, kRetries.size() - 1)];
}

void StatsClient::greeted() {
  if (state_ != State::open) return;  // it was closed behind what came
  due_ = Clock::time_point::max();
  failures_ = 0;
}

void StatsClient::connect(Clock::time_point now) {
  const std::optional<Address> address = address_();
  if (!address) {
    where_.clear();
    return drop("the run is not running", now);
  }
  where_ = address->text();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int unknown = ::getaddrinfo(address->host.c_str(), std::to_string(address->port).c_str(), &hints, &first);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(first, &::freeaddrinfo);
  if (unknown != 0) return drop("the host name cannot be resolved: " + std::string(::gai_strerror(unknown)), now);
  // One of a name's addresses each time.
  size_t count = 0;
  for (const addrinfo* at = first; at != nullptr; at = at->ai_next) ++count;
  const addrinfo* at = first;
  for (size_t skipped = failures_ % count; skipped > 0; --skipped) at = at->ai_next;
  socket_ = Descriptor(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket_.number() < 0) return drop(error_text(errno), now);
  if (::connect(socket_.number(), at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS)
    return drop(error_text(errno), now);
  state_ = State::connecting;
  due_ = now + kPatience;
}

void StatsClient::finish_connecting(Clock::time_point now) {
  pollfd ready{socket_.number(), POLLOUT, 0};
  if (::poll(&ready, 1, 0) <= 0) return;
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.number(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return drop(error_text(error), now);
  state_ = State::open;
  problem_.clear();
  ++opened_;
  due_ = now + kPatience;
  queued_ = "\n";  // the run says nothing before
}

void StatsClient::write_queued(Clock::time_point now) {
  while (!queued_.empty()) {
    const ssize_t sent = ::send(socket_.number(), queued_.data(), queued_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) return drop(error_text(errno), now);
    queued_.erase(0, static_cast<size_t>(sent));
  }
}

std::vector<std::string> StatsClient::read_lines(Clock::time_point now) {
  std::array<char, 1 << 16> block;
  std::string problem;
  while (problem.empty()) {
    const ssize_t count = ::recv(socket_.number(), block.data(), block.size(), 0);
    if (count > 0) {
      received_.append(block.data(), static_cast<size_t>(count));
      if (received_.size() > kMostBytes) problem = "too much at once: not the statistics port of a run";
    } else if (count == 0) {
      problem = "the connection is closed";
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      problem = error_text(errno);
    }
  }
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end; (end = received_.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(received_.substr(begin, end - begin));
  received_.erase(0, begin);
  if (!problem.empty()) drop(problem, now);
  return lines;
}

}  // namespace troupe
