#pragma once
// ServerProcess: a Python process that runs env_server.py and with it some rows of an environment. Every answer has a
// deadline; a process that ended, is silent past the deadline or breaks the protocol is killed and reported as
// ServerGone. Owned by one PythonEnv; one thread at a time.

#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "envs/bridge/step_block.h"
#include "envs/process_limit.h"
#include "runtime/base/child_connection.h"

namespace troupe {

// Which environments a server makes, and how it is started.
struct PythonTarget {
  std::string id;                           // "gym:CartPole-v1"
  std::string params;                       // JSON object: keyword arguments
  std::string python;                       // the interpreter
  std::chrono::milliseconds timeout;        // for a step
  std::chrono::milliseconds start_timeout;  // for the answer with the spaces, and for the first step
  std::string timeout_setting = kStepTimeout, start_setting = kStartTimeout;
};

// Whether a server has to find out by a reset and a step if the environment reports success.
enum class Probe : bool { no, yes };

// The process is lost, and so are the states of its rows. what() is one line.
class ServerGone : public std::runtime_error {
 public:
  explicit ServerGone(const std::string& what, std::vector<std::string> lines = {})
      : std::runtime_error(what), traceback(std::move(lines)) {}
  std::vector<std::string> traceback;  // of its threads when it crashed or was killed, as lines
};

// The failure of one row in a step.
struct ServerRowError {
  int64_t row = 0;                     // of those of the server
  std::string text;                    // "ValueError: bad (env.py:12)"
  std::vector<std::string> traceback;  // lines
  // It failed only when its next episode was to begin: the step that ended the last one is valid.
  bool after_end = false;
};

class ServerProcess {
 public:
  // Starts the process for `rows` rows, and asks for the spaces of the environment. Does not wait for the answer.
  // Throws IoError when the interpreter is missing.
  ServerProcess(const PythonTarget& target, int64_t rows, Probe probe);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  // The answer to the question of the constructor: {"spaces": ...} or {"error": {"kind", "text", "traceback"}}. Waits
  // at most for the start timeout, which counts from the constructor on. Throws ServerGone.
  nlohmann::ordered_json spaces();
  // Hands over the memory block for the steps, which has to outlive this object. Throws ServerGone, or IoError.
  void attach(StepBlock& block);
  // Asks for one step of the rows, as the block's commands say; `all`: all say RowCommand::step. Throws ServerGone.
  void request_step(bool all);
  // Whether no step is done yet: the first one makes the environments.
  bool starting() const { return starting_; }
  // Waits until that step is done. Returns the rows that failed. Throws ServerGone.
  std::vector<ServerRowError> await_step(const Deadline& deadline);
  // Row `row` as text; empty if the environment does not draw text. Throws ServerGone.
  std::string render(int64_t row);
  // Lets the process close its environments and end. The destructor waits for that, at most ChildConnection::kClosing
  // from this call on.
  void begin_close();

  pid_t id() const { return child_.id(); }
  // The rows [first, end) of the server whose code ran last and has not returned; none between steps.
  std::pair<int64_t, int64_t> executing() const;

 private:
  void send_json(const nlohmann::ordered_json& value, std::span<const int> files = {});
  void request(RequestKind kind);
  bool wait_readable(const Deadline& deadline);
  void require(ChildConnection::Io io);
  void read(char* data, size_t size, const Deadline& deadline);
  nlohmann::ordered_json read_json(const Deadline& deadline);
  void read_errors(std::vector<ServerRowError>& errors, const Deadline& deadline);
  [[noreturn]] void lose(const std::string& what, bool closed = false);
  [[noreturn]] void lose_late();
  std::vector<std::string> traceback() const;

  PythonTarget target_;
  Deadline start_;                  // for the answer with the spaces
  Descriptor trace_;                // memory into which the process writes its stack when it crashes
  Descriptor requested_, replied_;  // eventfds that wake the server and this process
  uint64_t steps_ = 0;
  bool starting_ = true;
  StepBlock* block_ = nullptr;  // none before attach()
  ChildConnection child_;
};

}  // namespace troupe
