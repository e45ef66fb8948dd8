#pragma once
// Verifier: scores groups of answers with a Python function, and survives what the function does. Owns one process at a
// time. One thread at a time but for abandon(); score() blocks.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/descriptor.h"
#include "runtime/stats/verifier_figures.h"
#include "tasks/failure_log.h"
#include "tasks/verifier_process.h"

namespace troupe {

class Verifier {
 public:
  // Throws IoError if the process has no file descriptor left. `log` outlives it.
  explicit Verifier(VerifierTarget target, FailureLog& log = FailureLog::of_process());
  // Logs how many failures were not logged.
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  // One score per item, in their order. If the call failed twice, all items have failed, with last_error() as the
  // problem. A process that is still there is kept. Logs what fails, each kind once in this process. Throws nothing but
  // std::bad_alloc.
  std::vector<Score> score(std::span<const VerifierItem> items);
  // The same of items that may be scored apart, because they belong to different prompts: throws VerifierFailed if the
  // call failed once, since some of them may be at fault. Once it is abandoned it does not throw.
  std::vector<Score> score_together(std::span<const VerifierItem> items);

  // Why the model cannot read this message, in one line; empty if it can.
  using MessageProblem = std::function<std::string(const Reply&)>;
  // What the function says to each item. If the call failed twice, all of them have last_error() as the problem. One
  // whose message has a problem has failed as well. Logs and counts what fails, as score() does.
  std::vector<Reply> reply(std::span<const VerifierItem> items, const MessageProblem& problem_of = {});

  // Any thread. The call under way and all later ones end at once, and their answers have failed.
  void abandon();

  const VerifierFigures& figures() const { return figures_; }    // so far; it does not know who waits
  const std::string& last_error() const { return last_error_; }  // of a call or an answer

 private:
  // What `call` returns about the process; nothing if it failed, which is logged and counted.
  template <class Call>
  auto attempt(const Call& call) -> std::optional<decltype(call(std::declval<VerifierProcess&>()))>;
  void note_failure(const std::string& problem, const std::vector<std::string>& traceback, const std::string& place);
  // The scores of a call of so many items; all have failed without verdicts.
  std::vector<Score> scores_of(std::optional<std::vector<Verdict>> verdicts, size_t items);

  VerifierTarget target_;
  FailureLog& log_;
  std::atomic<bool> abandoned_ = false;
  Descriptor wake_;                           // an eventfd, readable once it is abandoned
  std::unique_ptr<VerifierProcess> process_;  // none before the first call and after it was lost
  bool started_ = false;
  VerifierFigures figures_;
  std::string last_error_;
};

}  // namespace troupe
