#pragma once
// RequestRetry: when a worker asks inference again for what it has not got, and when it gives up. A worker has one for
// each group. One thread.

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "runtime/base/errors.h"

namespace troupe {

// Inference, or a scorer, has failed RequestRetry::kMostFailures times on the same request.
class InferenceFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Answers could not be scored, although scoring them was tried again and again.
class ScoringFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class RequestRetry {
 public:
  static constexpr uint32_t kFailing = 10;        // takes about 4 s
  static constexpr uint32_t kMostFailures = 100;  // about 95 s
  static constexpr uint32_t kPatience = 10;       // calls of beat(), where replies take milliseconds
  static constexpr uint32_t kSilence = 3 * kPatience;

  // A request was sent, or sent again.
  void asked() { beats_waiting_ = 0; }
  // Call about once a second while an answer is awaited. Whether to ask again, because nothing has come for `patience`
  // calls.
  bool beat(uint32_t patience = kPatience);
  // The request is in progress.
  void in_progress() { beats_waiting_ = silent_beats_ = 0; }
  // The answer is an error. Returns after how long to ask again. Throws InferenceFailed, which says that `what` failed,
  // when the forward has failed kMostFailures times.
  std::chrono::milliseconds failed(Fault fault, const std::string& error, const std::string& what = "inference");
  // The request is answered.
  void answered() { *this = {}; }

  // The forward has failed kFailing times.
  bool is_failing() const { return failures_ >= kFailing; }
  // Calls of beat() since anything came, also if it was an error.
  uint32_t silent_beats() const { return silent_beats_; }

 private:
  uint32_t errors_ = 0;    // of the request under way
  uint32_t failures_ = 0;  // those whose forward failed
  uint32_t beats_waiting_ = 0, silent_beats_ = 0;
};

}  // namespace troupe
