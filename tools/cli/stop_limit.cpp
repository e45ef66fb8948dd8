#include "tools/cli/stop_limit.h"

#include <algorithm>
#include <utility>

namespace troupe {

StopLimit::StopLimit(StopSignals& signals, std::function<void()> give_up)
    : StopLimit(Sources{.wait = [&signals] { return signals.wait(); }, .end = [&signals] { signals.end(); }},
                std::move(give_up)) {}

StopLimit::StopLimit(Sources sources, std::function<void()> give_up)
    : sources_(std::move(sources)), give_up_(std::move(give_up)), thread_([this] { watch(); }) {}

StopLimit::~StopLimit() {
  sources_.end();
  stopping();
  thread_.join();
}

std::chrono::milliseconds StopLimit::patience() {
  const auto twice = std::chrono::duration_cast<std::chrono::milliseconds>(2 * EnvironmentCalls::now().longest);
  return std::clamp(twice, kPatience, kMostPatience);
}

void StopLimit::next() {
  const MutexLock lock(mutex_);
  if (!given_up_ || stopping_) return;
  stopped_ = true;
  changed_.notify_all();
  changed_.wait(mutex_, [] { return false; });
}

void StopLimit::stopping() {
  const MutexLock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

// Waits until the thread of the run is inside an environment, or has stopped. False if the run obeys meanwhile.
bool StopLimit::stop_run() {
  constexpr std::chrono::milliseconds kLook{10};
  given_up_ = true;
  while (!stopped_ && !stopping_ && !sources_.calls().inside()) changed_.wait_for(mutex_, kLook);
  if (!stopped_ && stopping_) given_up_ = false;
  return given_up_;
}

void StopLimit::watch() {
  if (!sources_.wait()) return;  // the run has ended
  {
    const MutexLock lock(mutex_);
    for (EnvironmentCalls before = sources_.calls(); !given_up_;) {
      changed_.wait_for(mutex_, sources_.patience(), [this]() TROUPE_REQUIRES(mutex_) { return stopping_; });
      if (stopping_) return;
      const EnvironmentCalls now = sources_.calls();
      if (now.in_vain_since(before) && !stop_run()) return;
      before = now;
    }
  }
  give_up_();
}

}  // namespace troupe
