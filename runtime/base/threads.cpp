#include "runtime/base/threads.h"

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <latch>
#include <system_error>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/text_format.h"

namespace troupe {
namespace {

// Threads that wait until this object is destroyed.
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

// The stack of a thread, as the C library sets it from `ulimit -s` when the process starts.
uint64_t stack_bytes() {
  constexpr uint64_t kUsual = 8 << 20;
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return kUsual;
  const bool known = pthread_attr_getstacksize(&attributes, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  return known ? bytes : kUsual;
}

}  // namespace

AddressSpace address_space_for(size_t threads, uint64_t memory, uint64_t cores) {
  constexpr uint64_t kLibraries = 64 << 20;  // code, tables and buffers that libraries load or allocate later
  constexpr uint64_t kArenasOfCore = 8;      // the limit of glibc (malloc/arena.c, NARENAS_FROM_NCORES)
  return {.needed = threads * stack_bytes() + memory + kLibraries,
          .arenas = std::max<uint64_t>(1, std::min<uint64_t>(threads, kArenasOfCore * cores))};
}

uint64_t AddressSpace::arenas_within(uint64_t available) const {
  constexpr uint64_t kArena = 128 << 20;  // glibc reserves twice the 64 MiB of an arena while it aligns one
  const uint64_t fit = available < needed ? 0 : (available - needed) / kArena;
  return std::clamp<uint64_t>(fit, 1, arenas);
}

void require_address_space(size_t threads, uint64_t memory, uint64_t available, const std::string& advice) {
  const AddressSpace space = address_space_for(threads, memory, processors());
  if (available < space.needed)
    throw ConfigError("`ulimit -v` leaves " + format_bytes(available) + " of address space, " +
                      format_bytes(space.needed) + " are needed for " + std::to_string(threads) +
                      " threads and the data: raise it" + (advice.empty() ? "" : ", or " + advice));
  const uint64_t arenas = space.arenas_within(available);
  if (arenas == space.arenas) return;
  mallopt(M_ARENA_MAX, static_cast<int>(arenas));  // NOLINT(concurrency-mt-unsafe): before the threads it is for
  log_warn("memory", "`ulimit -v` leaves address space for " + std::to_string(arenas) + " of " +
                         std::to_string(space.arenas) + " allocation arenas: threads share them, which can be slower");
}

void require_threads(size_t count, const std::string& advice, const StartThread& start) {
  WaitingThreads threads;
  try {
    threads.start(count, start ? start : start_thread);
  } catch (const std::system_error&) {
    throw ConfigError("cannot start " + std::to_string(count) + " threads, " + std::to_string(threads.started()) +
                      " started: raise `ulimit -u`, `-v`, `-d` or the container's limit of processes" +
                      (advice.empty() ? "" : ", or " + advice));
  }
}

}  // namespace troupe
