#include "actors/experience/common/request_retry.h"

#include <algorithm>

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kFirstDelay{10};
constexpr std::chrono::milliseconds kLongestDelay{1000};

}  // namespace

bool RequestRetry::beat(uint32_t patience) {
  ++silent_beats_;
  return ++beats_waiting_ >= patience;
}

std::chrono::milliseconds RequestRetry::failed(Fault fault, const std::string& error) {
  silent_beats_ = 0;
  if (fault == Fault::forward_failed && ++failures_ >= kMostFailures)
    throw InferenceFailed("inference failed " + std::to_string(failures_) +
                          " times in a row on the same request, the last time with: " + error);
  const auto delay = kFirstDelay * (1 << std::min<uint32_t>(errors_++, 7));
  return std::min(delay, kLongestDelay);
}

}  // namespace troupe
