#pragma once
// VerifierProcess: a Python process that runs verifier_server.py and scores answers with a function of the user. Every
// call has a deadline. A process that ended, is silent past the deadline or breaks the protocol is killed and reported
// as VerifierFailed; one whose function raises an exception is reported as VerifierRaised and stays. One thread at a
// time; its functions block.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/child_connection.h"
#include "tasks/task.h"
#include "tasks/task_config.h"

namespace troupe {

// Which verifier is run, and how.
struct VerifierTarget {
  std::string function;                        // "MODULE:CALLABLE" or "FILE.py:CALLABLE"
  std::string params = {};                     // of a whole task, which the function makes: JSON object; else empty
  bool replies = false;                        // the function gives messages, not scores
  std::string python;                          // the interpreter: a path, or a name in PATH
  std::chrono::milliseconds timeout{10'000};   // for one call
  std::chrono::milliseconds starting{60'000};  // for the start of the process, with the imports of the verifier
  int64_t answers_per_call = 1;                // to different prompts, at most
};

// The verifier of the config, which has one: that of the task if task.verifier is task.name.
VerifierTarget verifier_target(const TaskConfig& config);

// The function of task.reply, which the config has.
VerifierTarget reply_target(const TaskConfig& config);

// One answer to score, or to reply to. The texts are UTF-8.
struct VerifierItem {
  std::string prompt, truth, answer;
  std::string columns = {};                       // a JSON object, or empty
  std::optional<std::vector<Turn>> earlier = {};  // in runs of several turns: those before the answer
};

struct Verdict {
  Score score;                              // reward and parts are at most kMostReward in magnitude
  std::vector<std::string> traceback = {};  // of an answer that failed; often empty
  std::string place = {};                   // where it failed, the same for all failures of one kind; may be empty
};

// A parameter of the verifier without which it cannot score an answer.
struct VerifierNeed {
  std::string parameter;
  std::vector<std::string> keys;  // each prompt must have one of them as a column, or a truth where one is "truth"
};

// Why the prompt cannot be scored, in one line; empty if it has what the verifier needs. `truth_setting` names the key
// of truths, if a setting does.
std::string problem_of_prompt(const Prompt& prompt, std::span<const VerifierNeed> needs,
                              const std::string& truth_setting = {});

inline constexpr double kMostReward = 1e6;
inline constexpr size_t kMostParts = 32;
inline constexpr size_t kLongestPartName = 64;  // bytes

// The verifier gave no scores. what() is one line.
class VerifierFailed : public std::runtime_error {
 public:
  explicit VerifierFailed(const std::string& what, std::vector<std::string> lines = {}, std::string where = {})
      : std::runtime_error(what), traceback(std::move(lines)), place(std::move(where)) {}
  std::vector<std::string> traceback;  // empty if no exception of the verifier is the cause
  std::string place;                   // as that of a Verdict
};

// The same because its function raised an exception, or returned what gives no scores. The process can be asked again.
class VerifierRaised : public VerifierFailed {
 public:
  using VerifierFailed::VerifierFailed;
};

// The replies to answers, as read_verdicts().
std::vector<Reply> read_replies(std::string_view line, uint64_t id, size_t count);

// The verdicts of a reply of verifier_server.py to the request `id` about `count` answers. A number is a reward, and an
// answer with a reward of at least 1 is right. Throws VerifierFailed for a reply that reports an error, and for
// anything that is not such a reply.
std::vector<Verdict> read_verdicts(std::string_view line, uint64_t id, size_t count);

class VerifierProcess {
 public:
  // Starts the process and does not wait for it. Throws IoError when the interpreter is missing. A descriptor
  // `abandoned` that becomes readable ends what is waited for (-1: none).
  explicit VerifierProcess(const VerifierTarget& target, int abandoned = -1);
  VerifierProcess(const VerifierProcess&) = delete;
  VerifierProcess& operator=(const VerifierProcess&) = delete;

  // Waits until the verifier is loaded. Throws as score().
  void start();
  // One verdict per item. The first call also waits for the start. Throws VerifierRaised, or VerifierFailed: the
  // process is killed then, and every later call throws.
  std::vector<Verdict> score(std::span<const VerifierItem> items);
  // What a whole task, or a function that replies, says to each item. The same.
  std::vector<Reply> reply(std::span<const VerifierItem> items);

  // Of a whole task: its prompts from index `first` on to `end` - 1, as JSON objects; fewer if it has no more. Blocks
  // and throws as score().
  std::vector<std::string> prompts(uint64_t first, uint64_t end);

  // Once it has started:
  const std::vector<VerifierNeed>& needs() const { return needs_; }
  bool replies() const { return replies_; }  // whether it can reply

  pid_t id() const { return child_.id(); }

 private:
  std::string who() const;  // what the process runs: "the verifier", "the reply function", or "the task"
  void await_ready();
  // Sends `text` and returns the next line, without its newline.
  std::string exchange(std::string_view text, std::chrono::milliseconds limit, const char* setting, size_t longest);
  [[noreturn]] void lose(const std::string& what, bool closed = false);
  // Kills the process when `work` throws VerifierFailed, except VerifierRaised.
  template <class Work>
  auto or_kill(Work work);
  // Sends a request about `items` and returns the reply to it, which has the number `requests_`.
  std::string ask_about(std::span<const VerifierItem> items, bool reply);

  VerifierTarget target_;
  ChildConnection child_;
  std::string received_;
  int abandoned_;
  uint64_t requests_ = 0;
  bool ready_ = false, replies_ = false;
  std::vector<VerifierNeed> needs_;
};

}  // namespace troupe
