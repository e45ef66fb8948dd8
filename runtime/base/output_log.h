#pragma once
// OutputLog: writes what a child process prints to the log, at info level and a limited rate. The lines of a traceback
// of Python stay together: the log holds back repetitions of the whole, never of a line in it. One thread at a time.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/token_bucket.h"

namespace troupe {

class OutputLog {
 public:
  explicit OutputLog(std::string component) : component_(std::move(component)) {}
  // Writes a traceback that has begun and not ended.
  ~OutputLog() { flush(); }
  OutputLog(const OutputLog&) = delete;
  OutputLog& operator=(const OutputLog&) = delete;

  // One line of the output, without its line break.
  void add(std::string_view line);

  static constexpr size_t kMostLines = 200;  // of one traceback; a longer one is written in parts

 private:
  void flush();

  std::string component_;
  std::vector<std::string> traceback_;  // its lines so far
  TokenBucket lines_{200, 5};
};

}  // namespace troupe
