#include "models/decoder/parallel_for.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {
namespace {

// About 20 to 50 microseconds.
constexpr int kActiveWaits = 1000;
constexpr int64_t kPartFloats = 16384;
constexpr int64_t kLineFloats = 16;  // of a cache line

// Returns when done() is true, or after kActiveWaits attempts.
template <class Done>
void wait_actively(const Done& done) {
  for (int i = 0; i < kActiveWaits && !done(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace

ParallelFor::ParallelFor(int threads) {
  TROUPE_CHECK(threads >= 1, "threads", threads);
  try {
    for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {
    end_threads();
    throw;
  }
}

ParallelFor::~ParallelFor() { end_threads(); }

void ParallelFor::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    ++loop_;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ParallelFor::take_tasks(int64_t tasks, const std::function<void(int64_t)>& body) {
  try {
    for (int64_t i = next_++; i < tasks; i = next_++) body(i);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    next_ = tasks;
  }
}

void ParallelFor::work() {
  uint64_t seen = 0;
  while (true) {
    wait_actively([&] { return loop_ != seen; });
    std::unique_lock lock(mutex_);
    started_.wait(lock, [&] { return loop_ != seen; });
    if (ending_) return;
    seen = loop_;
    if (body_ == nullptr) continue;
    ++working_;
    const int64_t tasks = tasks_;
    const std::function<void(int64_t)>& body = *body_;
    lock.unlock();
    take_tasks(tasks, body);
    lock.lock();
    if (--working_ == 0) ended_.notify_one();
  }
}

void ParallelFor::run(int64_t tasks, const std::function<void(int64_t)>& body) {
  if (threads_.empty() || tasks <= 1) {
    for (int64_t i = 0; i < tasks; ++i) body(i);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    tasks_ = tasks;
    next_ = 0;
    ++loop_;
  }
  started_.notify_all();
  take_tasks(tasks, body);
  {
    const std::lock_guard lock(mutex_);
    body_ = nullptr;
  }
  wait_actively([&] { return working_ == 0; });
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return working_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void for_parts(int64_t count, int64_t part, ParallelFor& parallel, const std::function<void(int64_t, int64_t)>& body) {
  parallel.run((count + part - 1) / part, [&](int64_t i) { body(i * part, std::min(count, (i + 1) * part)); });
}

int64_t rows_per_part(int64_t width) { return std::max<int64_t>(1, kPartFloats / width); }

int64_t columns_per_part(int64_t rows) {
  return std::max<int64_t>(4, kPartFloats / std::max<int64_t>(1, rows) / kLineFloats) * kLineFloats;
}

}  // namespace troupe
