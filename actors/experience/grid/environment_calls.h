#pragma once
// EnvironmentCalls: whether the environments of this process make steps. A deterministic run has one thread, and while
// that is inside an environment which hangs, only another thread can see it. Any thread.

#include <chrono>
#include <cstdint>

#include "envs/env.h"

namespace troupe {

// Calls of Env::reset(), step() and save() since the process began.
struct EnvironmentCalls {
  uint64_t begun = 0, returned = 0;
  uint64_t made = 0;  // of those that returned: at least one row did not fail, or there is no row that could

  std::chrono::nanoseconds longest{0};  // of those in `made`

  static EnvironmentCalls now();
  bool inside() const { return begun > returned; }
  // Whether between `before` and this moment the environments have only failed or hung. False if none was called.
  bool in_vain_since(const EnvironmentCalls& before) const;
};

// One call, from its construction to its destruction.
class EnvironmentCall {
 public:
  EnvironmentCall();
  ~EnvironmentCall();
  EnvironmentCall(const EnvironmentCall&) = delete;
  EnvironmentCall& operator=(const EnvironmentCall&) = delete;
  // Notes its result; without that it has failed. The second is for calls that make no step, such as Env::save().
  void note(const EnvStep& step);
  void note_done();

 private:
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace troupe
