#include "runtime/base/output_log.h"

#include <span>

#include "runtime/base/log.h"

namespace troupe {

void OutputLog::add(std::string_view line) {
  const bool begins = line.find("Traceback (most recent call last):") != std::string_view::npos;
  const bool indented = line.starts_with(' ') || line.starts_with('\t');
  if (begins && !indented) flush();
  const bool inside = begins || !traceback_.empty();
  traceback_.emplace_back(line);
  // The first line that is not indented names the exception, and ends the traceback.
  if (!inside || (!begins && !indented) || traceback_.size() >= kMostLines) flush();
}

void OutputLog::flush() {
  if (!traceback_.empty() && lines_.take(1, TokenBucket::Clock::now())) {
    lines_.charge(static_cast<double>(traceback_.size() - 1));
    log_block(LogLevel::info, component_, traceback_);
  }
  traceback_.clear();
}

}  // namespace troupe
