#pragma once
// ChildConnection: a program that this process starts and talks to through a socket, with a limit of time for every
// wait. The output of the child goes to the log; as any wait for a child reads that of all, children that start
// together are not held up by what they print. What is said, and which error a failure becomes, is up to the owner. One
// thread at a time.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/child_memory.h"
#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/output_log.h"

namespace troupe {

class ChildConnection {
 public:
  enum class Io : uint8_t { done, closed, late };     // closed: by the child; late: the limit of time has passed
  enum class Wait : uint8_t { socket, other, late };  // what is ready

  // Starts `arguments`, with its end of the socket as descriptor 3 and `files` as 4 and so on. `name` is that of its
  // lines in the log, and of errors. Throws IoError.
  ChildConnection(const std::string& name, ChildKind kind, const std::vector<std::string>& arguments,
                  std::span<const int> files = {});

  // Whether neither close() nor end() was called.
  bool open() const { return socket_.number() >= 0; }
  int socket() const { return socket_.number(); }
  pid_t id() const { return process_.id(); }

  // Waits until the socket is ready for `events` of poll(), which an end of the connection counts as, or, without that,
  // until `other` is readable (-1: none).
  Wait wait(short events, const Deadline& deadline, int other = -1);
  // Sends all of `bytes`, with copies of the descriptors `files`, at most kMostFiles.
  Io send(std::string_view bytes, const Deadline& deadline, std::span<const int> files = {});
  // Receives exactly `size` bytes.
  Io receive(char* data, size_t size, const Deadline& deadline);
  // Appends what has arrived, at least one byte.
  Io receive_some(std::string& bytes, const Deadline& deadline);
  void read_output() { process_.read_output(); }

  // How the child has ended.
  struct End {
    bool by_itself;         // otherwise it was killed
    std::string state;      // "ended with exit code 3"
    std::string last_line;  // "; the last line of its output: ...", or empty
  };
  // Ends the child because of a failure. If it has closed the connection, it gets a moment to end by itself.
  // `before_kill` is called if it has not.
  End end(bool closed, const std::function<void(ChildProcess&)>& before_kill = {});

  // Closes the connection, which lets the child end by itself, and does not wait.
  void close();
  // Waits for that end, at most kClosing from close() on. Returns whether the child has ended; the destructor kills it.
  bool wait_closed();
  // As ChildProcess has them.
  std::string state() const { return process_.state(); }
  std::optional<int> exit_code() const { return process_.exit_code(); }

  static constexpr std::chrono::milliseconds kClosing{2000};
  static constexpr size_t kMostFiles = 3;

 private:
  OutputLog output_;
  Descriptor socket_, other_end_;
  ChildProcess process_;
  CountedChild counted_;
  std::optional<Deadline> closing_;
};

}  // namespace troupe
