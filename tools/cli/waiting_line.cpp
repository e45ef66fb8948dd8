#include "tools/cli/waiting_line.h"

#include <utility>

#include "runtime/base/output.h"

namespace troupe {

WaitingLine::WaitingLine(std::string text)
    : thread_([this, text = std::move(text)] {
        const MutexLock lock(mutex_);
        if (!changed_.wait_for(mutex_, kLong, [this]() TROUPE_REQUIRES(mutex_) { return over_; }))
          print_error("troupe: " + text);
      }) {}

WaitingLine::~WaitingLine() {
  {
    const MutexLock lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

}  // namespace troupe
