#pragma once
// A client of the statistics port, and its log, for tests.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/stats/socket.h"
#include "tests/support/test.h"

namespace troupe {

// Sends the log to memory while it exists.
struct QuietLog {
  QuietLog() { open_log(disk.open_append("log"), {LogLevel::info, LogLevel::error, false}); }
  ~QuietLog() { close_log(); }
  MemoryDisk disk;
};

// A blocking client. A read that takes longer than ten seconds counts as the end of the connection and fails the test.
class StatsClient {
 public:
  explicit StatsClient(const StatsSocket& server, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const timeval timeout{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  StatsClient(const StatsClient&) = delete;
  StatsClient& operator=(const StatsClient&) = delete;
  ~StatsClient() { close(); }

  bool connected() const { return connected_; }
  // Sends the bytes; a connection that the peer has closed is not an error.
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // Sends an empty line, which asks for `hello` only, and returns what comes.
  nlohmann::json greeting() {
    send("\n");
    return message();
  }
  void end_sending() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  // The next line without its line break; empty at the end.
  std::string line() {
    size_t end;
    while ((end = buffer_.find('\n')) == std::string::npos)
      if (!fill()) return "";
    const std::string result = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return result;
  }
  // The next message; null at the end.
  nlohmann::json message() {
    const std::string text = line();
    return text.empty() ? nlohmann::json() : nlohmann::json::parse(text);
  }
  // The next `count` bytes; fewer at the end.
  std::string bytes(size_t count) {
    while (buffer_.size() < count && fill()) {
    }
    const std::string result = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return result;
  }
  std::string rest() {
    while (fill()) {
    }
    return std::exchange(buffer_, "");
  }
  // The reason of the error that ends the connection, which must be the last message. Otherwise a text that describes
  // what came instead.
  std::string closing_error() {
    nlohmann::json last;
    for (nlohmann::json next = message(); !next.is_null(); next = message()) {
      if (last.is_object() && last["type"] == "error") return "another message after the error";
      last = next;
    }
    return last.is_object() && last["type"] == "error" ? last["reason"].get<std::string>() : "no error: " + last.dump();
  }

 private:
  bool fill() {
    char chunk[65536];
    const ssize_t got = ::recv(fd_, chunk, sizeof chunk, 0);
    if (got < 0) CHECK((errno == ECONNRESET));
    if (got <= 0) return false;
    buffer_.append(chunk, static_cast<size_t>(got));
    return true;
  }

  int fd_;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace troupe
