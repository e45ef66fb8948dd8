#pragma once
// Mutex and MutexLock: std::mutex and std::lock_guard with the annotations of clang's thread safety analysis
// (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html), which those of libstdc++ do not have. TROUPE_GUARDED_BY
// names the mutex that protects a member, TROUPE_REQUIRES the mutex that the caller of a function must hold, and
// `tools/check lint` reports an access without the lock. To wait, pass the Mutex to a std::condition_variable_any while
// a MutexLock holds it.

#include <mutex>

#ifdef __clang__
#define TROUPE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TROUPE_THREAD_ANNOTATION(x)
#endif

#define TROUPE_GUARDED_BY(mutex) TROUPE_THREAD_ANNOTATION(guarded_by(mutex))
#define TROUPE_REQUIRES(mutex) TROUPE_THREAD_ANNOTATION(requires_capability(mutex))

namespace troupe {

class TROUPE_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() TROUPE_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() TROUPE_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class TROUPE_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TROUPE_THREAD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() TROUPE_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace troupe
