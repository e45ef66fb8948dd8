// The relay of the benchmark of several ranks, between two sockets of the test.
#include "tools/bench/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/test.h"

using namespace troupe;

namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

class Socket {
 public:
  explicit Socket(int number) : number_(number) { REQUIRE(number_ >= 0); }
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  ~Socket() { end(); }
  void end() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  int number() const { return number_; }

  void send(const std::string& bytes) const {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = ::send(number_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
  }
  // Fewer bytes at the end of the connection.
  std::string receive(size_t count) const {
    std::string bytes(count, '\0');
    const ssize_t received = ::recv(number_, bytes.data(), count, MSG_WAITALL);
    bytes.resize(received > 0 ? static_cast<size_t>(received) : 0);
    return bytes;
  }

 private:
  int number_;
};

class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    REQUIRE(::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(socket_.number(), 8) == 0);
    REQUIRE(::getsockname(socket_.number(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  uint16_t port() const { return port_; }
  Socket accept() const { return Socket(::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC)); }
  void end() { socket_.end(); }

 private:
  Socket socket_;
  uint16_t port_ = 0;
};

bool connect_to(const Socket& socket, uint16_t port) {
  const sockaddr_in to = loopback(port);
  return ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
}

Socket new_socket() { return Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// A connection through a relay.
struct Link {
  explicit Link(double bytes_per_second) : relay(listener.port(), bytes_per_second), near(new_socket()) {
    REQUIRE(connect_to(near, relay.port()));
    far.emplace(listener.accept());
  }
  Listener listener;
  Relay relay;
  Socket near;
  std::optional<Socket> far;
};

std::string pattern(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
  return bytes;
}

constexpr double kFast = 1e10;

}  // namespace

TEST_CASE("relay: bytes arrive as they were sent, in both directions at once, and are counted") {
  Link link(kFast);
  const std::string up = pattern(3'000'000), down = pattern(2'000'001);
  std::thread far([&] { link.far->send(down); });
  std::thread near([&] { link.near.send(up); });
  CHECK(link.near.receive(down.size()) == down);
  CHECK(link.far->receive(up.size()) == up);
  near.join();
  far.join();
  CHECK(link.relay.bytes().up == up.size());
  CHECK(link.relay.bytes().down == down.size());
}

TEST_CASE("relay: no more bytes pass than the rate allows") {
  constexpr double kRate = 10e6, kLargestBurst = 2e4;
  Link link(kRate);
  const std::string bytes = pattern(1'000'000);
  const auto begun = std::chrono::steady_clock::now();
  std::thread near([&] { link.near.send(bytes); });
  CHECK(link.far->receive(bytes.size()) == bytes);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
  near.join();
  CHECK(taken.count() > (static_cast<double>(bytes.size()) - kLargestBurst) / kRate - 1e-3);
}

TEST_CASE("relay: the end of either side ends the other") {
  for (const bool far : {false, true}) {
    Link link(kFast);
    (far ? *link.far : link.near).end();
    CHECK((far ? link.near : *link.far).receive(1).empty());
  }
}

TEST_CASE("relay: a connection is closed when nobody listens at the target") {
  Listener listener;
  const Relay relay(listener.port(), kFast);
  listener.end();
  const Socket near = new_socket();
  REQUIRE(connect_to(near, relay.port()));
  CHECK(near.receive(1).empty());
}

TEST_CASE("relay: nothing listens at its port after its end") {
  uint16_t port = 0;
  {
    Link link(kFast);
    port = link.relay.port();
  }
  CHECK(!connect_to(new_socket(), port));
}
