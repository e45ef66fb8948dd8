#include "runtime/threads.h"

#include <latch>
#include <system_error>
#include <vector>

#include "runtime/errors.h"

namespace troupe {
namespace {

// Threads that wait until this ends.
class WaitingThreads {
 public:
  WaitingThreads() = default;
  ~WaitingThreads() {
    released_.count_down();
    for (std::thread& thread : threads_) thread.join();
  }
  WaitingThreads(const WaitingThreads&) = delete;
  WaitingThreads& operator=(const WaitingThreads&) = delete;

  void start(size_t count, const StartThread& start) {
    threads_.reserve(count);
    while (threads_.size() < count) threads_.push_back(start([this] { released_.wait(); }));
  }
  size_t started() const { return threads_.size(); }

 private:
  std::latch released_{1};
  std::vector<std::thread> threads_;
};

std::thread start_thread(const std::function<void()>& body) { return std::thread(body); }

}  // namespace

void require_threads(size_t count, const std::string& advice, const StartThread& start) {
  WaitingThreads threads;
  try {
    threads.start(count, start ? start : start_thread);
  } catch (const std::system_error&) {
    throw ConfigError("cannot start " + std::to_string(count) + " threads, " + std::to_string(threads.started()) +
                      " started: raise `ulimit -u`, `ulimit -v` or the container's limit of processes" +
                      (advice.empty() ? "" : ", or " + advice));
  }
}

}  // namespace troupe
