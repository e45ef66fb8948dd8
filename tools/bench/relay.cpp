#include "tools/bench/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "tools/bench/child_process.h"
#include "tools/cli/launch.h"

namespace troupe {

namespace {

constexpr size_t kBufferBytes = 1 << 16;
// Less is not worth a system call; bytes wait until the allowance has grown to it, unless there are fewer.
constexpr double kLeastBytes = 4096;

[[noreturn]] void fail_relay(const char* what) {
  throw std::runtime_error(std::string("relay: ") + what + ": " + std::generic_category().message(errno));
}

double monotonic_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

struct Relay::Shared {
  // One direction of a connection.
  struct Direction {
    int from = -1, to = -1;
    std::atomic<uint64_t>* passed = nullptr;
    double allowance = 0, counted = 0;  // bytes, and until when
    size_t begin = 0, end = 0;          // of what was read and is not written
    char buffer[kBufferBytes];

    bool holds_bytes() const { return begin < end; }
  };

  struct Connection {
    Direction up, down;
    bool open = false;
  };

  std::atomic<uint64_t> up = 0, down = 0;

  // The child's work. It makes only system calls and uses no other memory, because it was forked from a process with
  // several threads.
  class Loop;
  Connection connections[kMostConnections];
};

class Relay::Shared::Loop {
 public:
  Loop(Shared& shared, int listener, uint16_t target, double rate)
      : shared_(shared),
        listener_(listener),
        target_(target),
        rate_(rate),
        burst_(std::max(rate * kBurstSeconds, 2 * kLeastBytes)) {}

  [[noreturn]] void run() {
    for (;;) {
      poll_sockets();
      for (Connection& connection : shared_.connections)
        if (connection.open && !(pass(connection.up) && pass(connection.down))) close_both(connection);
      if ((polled_[0].revents & POLLIN) != 0) accept_one();
    }
  }

 private:
  // Until something can be done: each direction waits for bytes, for room, or for its allowance.
  void poll_sockets() {
    double wait = 1;
    size_t count = 0;
    polled_[count++] = {listener_, static_cast<short>(has_place() ? POLLIN : 0), 0};
    for (Connection& connection : shared_.connections) {
      if (!connection.open) continue;
      for (Direction* direction : {&connection.up, &connection.down}) {
        const double missing = direction->holds_bytes() ? 0 : kLeastBytes - allowance_of(*direction);
        if (missing > 0)
          wait = std::min(wait, missing / rate_);
        else if (direction->holds_bytes())
          polled_[count++] = {direction->to, POLLOUT, 0};
        else
          polled_[count++] = {direction->from, POLLIN, 0};
      }
    }
    const timespec most{static_cast<time_t>(wait), static_cast<long>(1e9 * (wait - static_cast<double>(time_t(wait))))};
    if (::ppoll(polled_, count, &most, nullptr) < 0) polled_[0].revents = 0;
  }

  double allowance_of(Direction& direction) const {
    const double at = monotonic_seconds();
    direction.allowance = std::min(burst_, direction.allowance + rate_ * (at - direction.counted));
    direction.counted = at;
    return direction.allowance;
  }

  // Reads what the allowance permits and writes what there is room for. False at the end of the connection.
  bool pass(Direction& direction) const {
    if (!direction.holds_bytes()) {
      const double allowance = allowance_of(direction);
      if (allowance < kLeastBytes) return true;
      const ssize_t count = ::recv(direction.from, direction.buffer,
                                   std::min(kBufferBytes, static_cast<size_t>(allowance)), MSG_DONTWAIT);
      if (count == 0) return false;
      if (count < 0) return errno == EAGAIN || errno == EINTR;
      direction.begin = 0;
      direction.end = static_cast<size_t>(count);
      direction.allowance -= static_cast<double>(count);
      // Before it is sent, so that whoever has received all bytes finds all counted.
      direction.passed->fetch_add(static_cast<uint64_t>(count), std::memory_order_relaxed);
    }
    const ssize_t count = ::send(direction.to, direction.buffer + direction.begin, direction.end - direction.begin,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    direction.begin += static_cast<size_t>(count);
    return true;
  }

  Connection* free_place() const {
    const auto place = std::ranges::find(shared_.connections, false, &Connection::open);
    return place == std::end(shared_.connections) ? nullptr : place;
  }
  bool has_place() const { return free_place() != nullptr; }

  void accept_one() const {
    Connection* connection = free_place();
    const int near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (near < 0 || connection == nullptr) return;
    const int far = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(target_);
    if (far < 0 || ::connect(far, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(near);
      if (far >= 0) ::close(far);
      return;
    }
    send_at_once(near);
    send_at_once(far);
    connection->open = true;
    begin(connection->up, near, far, shared_.up);
    begin(connection->down, far, near, shared_.down);
  }

  void begin(Direction& direction, int from, int to, std::atomic<uint64_t>& passed) const {
    direction.from = from;
    direction.to = to;
    direction.passed = &passed;
    direction.allowance = burst_;
    direction.counted = monotonic_seconds();
    direction.begin = direction.end = 0;
  }

  static void close_both(Connection& connection) {
    ::close(connection.up.from);
    ::close(connection.up.to);
    connection.open = false;
  }

  Shared& shared_;
  int listener_;
  uint16_t target_;
  double rate_, burst_;
  pollfd polled_[1 + 2 * kMostConnections] = {};
};

Relay::Relay(uint16_t target, double bytes_per_second) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) fail_relay("socket");
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(listener, kMostConnections) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ::close(listener);
    fail_relay("no port at 127.0.0.1");
  }
  port_ = ntohs(address.sin_port);
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    ::close(listener);
    fail_relay("memory");
  }
  shared_ = new (memory) Shared;
  const pid_t own = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    begin_child(own);
    // The sockets of this process would stay open in the child.
    if (listener > 3) ::close_range(3, static_cast<unsigned>(listener) - 1, 0);
    ::close_range(static_cast<unsigned>(listener) + 1, ~0U, 0);
    Shared::Loop(*shared_, listener, target, bytes_per_second).run();
  }
  ::close(listener);
  if (pid_ < 0) {
    ::munmap(shared_, sizeof(Shared));
    fail_relay("fork");
  }
}

Relay::~Relay() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::munmap(shared_, sizeof(Shared));
}

LinkBytes Relay::bytes() const { return {shared_->up.load(), shared_->down.load()}; }

}  // namespace troupe
