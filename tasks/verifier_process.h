#pragma once
// VerifierProcess: a Python process that runs verifier_server.py and scores answers with a function of the user. Every
// call has a deadline; a process that ended, is silent past the deadline, fails or breaks the protocol is killed and
// reported as VerifierFailed. One thread at a time; its functions block.

#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/child_connection.h"

namespace troupe {

// Which verifier is run, and how.
struct VerifierTarget {
  std::string function;                        // "MODULE:FUNCTION" or "FILE.py:FUNCTION"
  std::string python;                          // the interpreter: a path, or a name in PATH
  std::chrono::milliseconds timeout{10'000};   // for one call
  std::chrono::milliseconds starting{60'000};  // for the start of the process, with the imports of the verifier
};

// One answer to score. The texts are UTF-8.
struct VerifierItem {
  std::string prompt, truth, answer;
};

struct Verdict {
  double reward = 0;  // finite, at most kMostReward in magnitude
  bool right = false;
  std::vector<std::pair<std::string, double>> parts;  // of the reward, by name; finite
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

inline constexpr double kMostReward = 1e6;
inline constexpr size_t kMostParts = 32;
inline constexpr size_t kLongestPartName = 64;  // bytes

// The verifier gave no scores. what() is one line.
class VerifierFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The verdicts of a reply of verifier_server.py to the request `id` about `count` answers. A number is a reward, and an
// answer with a reward of at least 1 is right. Throws VerifierFailed for a reply that reports an error, and for
// anything that is not such a reply.
std::vector<Verdict> read_verdicts(std::string_view line, uint64_t id, size_t count);

class VerifierProcess {
 public:
  // Starts the process and does not wait for it. Throws IoError when the interpreter is missing.
  explicit VerifierProcess(const VerifierTarget& target);
  VerifierProcess(const VerifierProcess&) = delete;
  VerifierProcess& operator=(const VerifierProcess&) = delete;

  // One verdict per item. The first call also waits for the start. Throws VerifierFailed; the process is killed then,
  // and every later call throws.
  std::vector<Verdict> score(std::span<const VerifierItem> items);

  pid_t id() const { return child_.id(); }

 private:
  void await_ready();
  // Sends `text` and returns the next line, without its newline.
  std::string exchange(std::string_view text, std::chrono::milliseconds limit, const char* setting, size_t longest);
  [[noreturn]] void lose(const std::string& what, bool closed = false);

  VerifierTarget target_;
  ChildConnection child_;
  std::string received_;
  uint64_t requests_ = 0;
  bool ready_ = false;
};

}  // namespace troupe
