#pragma once
// ParallelFor: a loop over independent tasks on a fixed number of threads. Owned by whoever computes with a decoder;
// used by one thread at a time. After a loop its threads wait actively for some microseconds, because the next loop of
// a forward pass follows at once, then they sleep.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace troupe {

class ParallelFor {
 public:
  // `threads` threads compute, the calling one included; at least 1. Throws std::system_error when one cannot start.
  explicit ParallelFor(int threads = 1);
  ~ParallelFor();
  ParallelFor(const ParallelFor&) = delete;
  ParallelFor& operator=(const ParallelFor&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(i) once for each i in [0, tasks), in any order and on any of the threads, and returns when all calls
  // have returned. Does not wait for threads that wake up when all tasks are taken. Rethrows one of the exceptions that
  // the calls threw. body must not call run().
  void run(int64_t tasks, const std::function<void(int64_t)>& body);

 private:
  void work();
  void take_tasks(int64_t tasks, const std::function<void(int64_t)>& body);
  void end_threads();

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable started_, ended_;
  // Written under mutex_; atomic for threads that wait actively: number of the loop, and threads of threads_ in it.
  std::atomic<uint64_t> loop_{0};
  std::atomic<int> working_{0};
  // Guarded by mutex_. body_ is nullptr when no thread may enter the loop any more.
  const std::function<void(int64_t)>* body_ = nullptr;
  int64_t tasks_ = 0;
  bool ending_ = false;
  std::exception_ptr error_;
  std::atomic<int64_t> next_{0};
};

// Calls body(first, last) for parts of `part` numbers of [0, count), on the threads of `parallel`.
void for_parts(int64_t count, int64_t part, ParallelFor& parallel, const std::function<void(int64_t, int64_t)>& body);

// Rows for a part of for_parts() when each has `width` floats: enough that the part outweighs waking a thread.
int64_t rows_per_part(int64_t width);
// The same for columns when each has `rows` floats; whole cache lines.
int64_t columns_per_part(int64_t rows);

}  // namespace troupe
