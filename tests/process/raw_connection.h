#pragma once
// Connections without CAF, for tests that attack a port or play a server.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/process/process.h"

namespace troupe::test {

inline uint16_t port_of(const std::string& address) {
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A raw connection; closed at the end.
class Client {
 public:
  explicit Client(const std::string& address) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in to = loopback(port_of(address));
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  ~Client() {
    if (socket_ >= 0) ::close(socket_);
  }
  bool connected() const { return connected_; }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(std::exchange(socket_, -1));
  }
  // Stops early when the other side closes.
  void send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
  }
  // Whether the other side closes the connection before the deadline.
  bool is_closed() {
    for (char buffer[4096];;) {
      pollfd ready{socket_, POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0) return false;
      if (::recv(socket_, buffer, sizeof buffer, 0) <= 0) return true;
    }
  }

 private:
  int socket_;
  bool connected_ = false;
};

// Accepts connections, sends a text to each, and nothing after that.
class Server {
 public:
  explicit Server(std::string text, uint16_t port = 0)
      : text_(std::move(text)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(port);
    socklen_t size = sizeof address;
    const int reuse = 1;  // connections of the process that last used the port may still exist
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 8) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("cannot listen");
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    for (int client : clients_) ::close(client);
    ::close(socket_);
  }
  const std::string& address() const { return address_; }
  // Closes every connection that is accepted from now on.
  void close_all() { closes_ = true; }

 private:
  void serve() {
    for (int client; (client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      if (::send(client, text_.data(), text_.size(), MSG_NOSIGNAL) < 0 || closes_)
        ::close(client);
      else
        clients_.push_back(client);
    }
  }
  std::string text_, address_;
  int socket_;
  std::atomic<bool> closes_ = false;
  std::vector<int> clients_;
  std::thread thread_;
};

// The 32 bytes that begin a message between CAF nodes.
inline std::string caf_header(uint8_t operation, uint32_t payload_bytes, uint64_t data) {
  std::string header(32, '\0');
  header[0] = static_cast<char>(operation);
  for (int i = 0; i < 4; ++i) header[4 + static_cast<size_t>(i)] = static_cast<char>(payload_bytes >> (24 - 8 * i));
  for (int i = 0; i < 8; ++i) header[8 + static_cast<size_t>(i)] = static_cast<char>(data >> (56 - 8 * i));
  return header;
}

constexpr uint8_t kClientHandshake = 1;

inline std::string random_bytes(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(generator());
  return bytes;
}

}  // namespace troupe::test
