#pragma once
// Verifier: scores groups of answers with a Python function, and survives what the function does. Owns one process at a
// time. One thread at a time; score() blocks.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tasks/verifier_process.h"

namespace troupe {

// What a verifier has done so far.
struct VerifierFigures {
  uint64_t calls = 0;     // requests to a process, repeated ones included
  uint64_t failures = 0;  // calls without scores
  uint64_t restarts = 0;  // processes started after the first
  uint64_t dropped = 0;   // answers that have no score, because two calls failed
  double seconds = 0;     // in calls, with the starts of processes
};

class Verifier {
 public:
  explicit Verifier(VerifierTarget target) : target_(std::move(target)) {}

  // One verdict per item; nothing if the call failed twice, each time on another process: last_error() is then why.
  // Throws nothing but std::bad_alloc.
  std::optional<std::vector<Verdict>> score(std::span<const VerifierItem> items);

  const VerifierFigures& figures() const { return figures_; }
  const std::string& last_error() const { return last_error_; }

 private:
  std::optional<std::vector<Verdict>> attempt(std::span<const VerifierItem> items);

  VerifierTarget target_;
  std::unique_ptr<VerifierProcess> process_;  // none before the first call and after a failure
  bool started_ = false;
  VerifierFigures figures_;
  std::string last_error_;
};

}  // namespace troupe
