#pragma once
// Limits warnings that other processes can cause at any rate: 20 at once, then one per second. One thread at a time.

#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/token_bucket.h"

namespace troupe {

class LimitedLog {
 public:
  explicit LimitedLog(std::string component) : component_(std::move(component)) {}
  LimitedLog(const LimitedLog&) = delete;
  LimitedLog& operator=(const LimitedLog&) = delete;
  ~LimitedLog() {
    if (left_out_ > 0) log_warn(component_, std::to_string(left_out_) + " more warnings of this kind were left out");
  }

  void warn(std::string_view text) {
    if (!bucket_.take(1, TokenBucket::Clock::now())) {
      ++left_out_;
      return;
    }
    const std::string more =
        left_out_ == 0 ? "" : " (" + std::to_string(left_out_) + " warnings before this one were left out)";
    left_out_ = 0;
    log_warn(component_, std::string(text) + more);
  }

 private:
  std::string component_;
  TokenBucket bucket_{20, 1};
  uint64_t left_out_ = 0;
};

}  // namespace troupe
