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
#include "runtime/base/child_memory.h"
#include "runtime/base/child_process.h"
#include "runtime/base/deadline.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/output_log.h"

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

  // Starts the process and makes the environment in it. Throws ConfigError when the library is refused, LibraryLost, or
  // IoError.
  LibraryProcess(const LibraryTarget& target, int64_t rows);
  // Lets the process destroy its environments and end; kills it after kClosing.
  ~LibraryProcess();
  LibraryProcess(const LibraryProcess&) = delete;
  LibraryProcess& operator=(const LibraryProcess&) = delete;

  const EnvSpec& spec() const { return spec_; }
  // The arrays of a step, which both processes see. The first call makes them. Throws LibraryLost, or IoError.
  SharedStep& shared();
  // Asks the process and waits for the answer. The first request that begins episodes has the start timeout. Throws
  // LibraryLost, or std::runtime_error if the request failed.
  Reply ask(HostRequest request, uint64_t a = 0, uint64_t b = 0, std::string_view text = {});

  pid_t id() const { return process_->id(); }

  static constexpr std::chrono::milliseconds kClosing{2000};

 private:
  void await(short events, const Deadline& deadline);
  void read(char* data, size_t size, const Deadline& deadline);
  void write(const char* data, size_t size, const Deadline& deadline);
  [[noreturn]] void lose(const std::string& what);
  LibraryNotes notes() const;

  LibraryTarget target_;
  int64_t rows_;
  EnvSpec spec_;
  OutputLog output_;
  Descriptor socket_, file_;
  std::shared_ptr<std::byte[]> note_;  // the beginning of the file
  std::optional<SharedStep> shared_;
  bool starting_ = true;
  std::unique_ptr<ChildProcess> process_;
  std::unique_ptr<CountedChild> counted_;
};

}  // namespace troupe
