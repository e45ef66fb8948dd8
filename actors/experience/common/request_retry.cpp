#include "actors/experience/common/request_retry.h"

#include "actors/experience/common/retry_delay.h"

namespace troupe {

bool RequestRetry::beat(uint32_t patience) {
  ++silent_beats_;
  return ++beats_waiting_ >= patience;
}

std::chrono::milliseconds RequestRetry::failed(Fault fault, const std::string& error, const std::string& what) {
  silent_beats_ = 0;
  if (fault == Fault::forward_failed && ++failures_ >= kMostFailures)
    throw InferenceFailed(what + " failed " + std::to_string(failures_) +
                          " times in a row on the same request, the last time with: " + error);
  return retry_delay(++errors_);
}

}  // namespace troupe
