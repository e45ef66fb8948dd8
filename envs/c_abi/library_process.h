#pragma once
// LibraryProcess: the process of one HostedEnv that runs its library (envs/c_abi/library_host.h). One thread at a time;
// every function blocks until the process has answered, or a limit of time has passed.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "envs/c_abi/host_messages.h"
#include "envs/c_abi/library_call.h"
#include "envs/c_abi/library_env.h"
#include "runtime/base/child_connection.h"
#include "runtime/base/deadline.h"
#include "runtime/base/descriptor.h"

namespace troupe {

// The process is lost, and so are the states of its rows. what() is one line that names the library, the function that
// ran, and how the process ended.
class LibraryLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class LibraryProcess {
 public:
  struct Reply {
    std::string text;
    uint64_t a = 0;
  };

  // Starts the process, in which the environment is made. Does not wait for it. Throws LibraryLost, or IoError.
  LibraryProcess(const LibraryTarget& target, int64_t rows);
  // Lets the process destroy its environments and end; kills it after ChildConnection::kClosing.
  ~LibraryProcess();
  LibraryProcess(const LibraryProcess&) = delete;
  LibraryProcess& operator=(const LibraryProcess&) = delete;

  // What the environment observes and does. Waits for it, for the start timeout from the constructor on. Throws
  // ConfigError when the library is refused, or LibraryLost.
  const EnvSpec& spec();
  // Makes the arrays of a step, which both processes see. Does not wait. Throws LibraryLost, or IoError.
  void attach(const EnvSpec& spec);
  SharedStep& shared() { return *shared_; }
  // Asks the process and does not wait for the answer. Throws LibraryLost.
  void begin(HostRequest request, uint64_t a = 0, uint64_t b = 0, std::string_view text = {});
  // The answer to the last of the requests begun. Waits for all of them: until the process answers one with an error,
  // or does not answer within a limit of time. As long as no episode has begun, that is the start timeout, from the
  // constructor on or from the first request after the last answer. Throws LibraryLost, or std::runtime_error if a
  // request failed.
  Reply finish();
  // Both.
  Reply ask(HostRequest request, uint64_t a = 0, uint64_t b = 0, std::string_view text = {});

  // Lets the process end, and does not wait. Then only the destructor may be called.
  void begin_close() { child_.close(); }

  pid_t id() const { return child_.id(); }

 private:
  bool starting() const;
  std::chrono::milliseconds limit() const;
  void require(ChildConnection::Io io);
  Reply receive();
  [[noreturn]] void lose(const std::string& what);
  LibraryNotes notes() const;

  LibraryTarget target_;
  int64_t rows_;
  std::optional<EnvSpec> spec_;  // none before the first answer
  Descriptor file_;
  std::shared_ptr<std::byte[]> note_;  // the beginning of the file
  std::optional<SharedStep> shared_;
  uint64_t asked_ = 0;     // requests without an answer
  uint64_t answered_ = 0;  // the first is that of the spec, the second that of the arrays
  bool lost_ = false;
  Deadline deadline_;  // for the answers
  ChildConnection child_;
};

}  // namespace troupe
