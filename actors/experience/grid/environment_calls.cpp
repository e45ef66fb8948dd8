#include "actors/experience/grid/environment_calls.h"

#include <algorithm>
#include <atomic>

namespace troupe {

namespace {

std::atomic<uint64_t> calls_begun = 0, calls_returned = 0, calls_made = 0;
std::atomic<std::chrono::nanoseconds> longest_call = std::chrono::nanoseconds(0);

}  // namespace

EnvironmentCalls EnvironmentCalls::now() {
  return {.begun = calls_begun, .returned = calls_returned, .made = calls_made, .longest = longest_call};
}

bool EnvironmentCalls::in_vain_since(const EnvironmentCalls& before) const {
  return made == before.made && (inside() || returned > before.returned);
}

EnvironmentCall::EnvironmentCall() : begun_(std::chrono::steady_clock::now()) { ++calls_begun; }

EnvironmentCall::~EnvironmentCall() { ++calls_returned; }

void EnvironmentCall::note(const EnvStep& step) {
  if (!std::ranges::all_of(step.failed.view<uint8_t>(), [](uint8_t failed) { return failed != 0; })) note_done();
}

void EnvironmentCall::note_done() {
  const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - begun_;
  std::chrono::nanoseconds longest = longest_call;
  while (time > longest && !longest_call.compare_exchange_weak(longest, time)) continue;
  ++calls_made;
}

}  // namespace troupe
