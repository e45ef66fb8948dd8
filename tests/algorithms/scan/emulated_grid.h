#pragma once
// Runs CUDA kernels that are written for a `Thread` (algorithms/cuda/device_thread.cuh) on the host. Every thread of
// every resident block is a fiber with its own stack and program counter; fibers are switched in random order whenever
// they wait. Shuffles and barriers wait for whole warps and blocks, and fail if the lanes of a warp request different
// operations. The resident blocks are random too. It cannot emulate the order in which a real GPU makes writes visible.

#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::test {

class EmulatedGrid;

// A barrier for a warp or block: no thread passes before all have arrived.
struct Meeting {
  int wanted = 0, come = 0;
  uint64_t rounds = 0;
  int operation = 0;  // the operation of the threads that have arrived; all must be equal
};

struct EmulatedBlock {
  int64_t number = 0;
  std::vector<unsigned char> memory;  // shared memory, 16 bytes longer for alignment
  unsigned char* shared = nullptr;
  Meeting everyone;
  std::vector<Meeting> warps;
  std::vector<float> numbers;  // written by each thread for its warp
  std::vector<uint8_t> votes;
  int running = 0;
};

class EmulatedThread {
 public:
  EmulatedThread(EmulatedGrid& grid, EmulatedBlock& block, int index) : grid_(grid), block_(block), index_(index) {}

  int index() const { return index_; }
  int lane() const { return index_ % 32; }
  int warp() const { return index_ / 32; }
  int64_t block() const { return block_.number; }

  float shuffle_down(float x, int by);
  float shuffle(float x, int lane);
  uint32_t ballot(bool x);
  void sync_block() { meet(block_.everyone, 1001); }
  int first_bit(uint32_t x) const { return __builtin_ctz(x); }

  template <int kBytes>
  void load(const unsigned char* from, uint32_t* to, bool there) {
    std::memset(to, 0, (kBytes + 3) / 4 * 4);
    if (!there) return;
    if (reinterpret_cast<uintptr_t>(from) % kBytes != 0) throw std::logic_error("a load is not aligned");
    std::memcpy(to, from, kBytes);
  }

  void store_streaming(float* to, float x) { *to = x; }
  template <class Four>
  void store_streaming(float* to, const Four& four) {
    if (reinterpret_cast<uintptr_t>(to) % 16 != 0) throw std::logic_error("a 16-byte store is not aligned");
    std::memcpy(to, four.x, 16);
  }

  uint32_t take_ticket(uint32_t* counter) { return (*counter)++; }
  uint64_t load_relaxed(const uint64_t* from);
  void store_relaxed(uint64_t* to, uint64_t x);

 private:
  void meet(Meeting& meeting, int operation);
  std::size_t first_of_warp() const { return static_cast<std::size_t>(warp()) * 32; }

  EmulatedGrid& grid_;
  EmulatedBlock& block_;
  int index_;
};

using EmulatedKernel = std::function<void(EmulatedThread&, unsigned char* shared)>;

class EmulatedGrid {
 public:
  EmulatedGrid(int threads, int shared_bytes, uint64_t seed)
      : threads_(threads), shared_(shared_bytes), random_(seed) {}

  // Runs the kernel with `blocks` blocks, at most `resident` at a time, started in order. Rethrows exceptions of
  // threads, and throws std::logic_error when no thread can continue.
  void run(const EmulatedKernel& kernel, int64_t blocks, int resident);

  // Waits until another thread has arrived at this round of the barrier.
  void wait(const Meeting& meeting, uint64_t round);
  // Called when the thread polls a value that another one has to write.
  void looked_in_vain();
  void progressed() { idle_ = 0; }
  uint64_t random() { return random_(); }

 private:
  static constexpr std::size_t kStack = 64 * 1024;

  struct Fiber {
    ucontext_t context;
    std::unique_ptr<unsigned char[]> stack;
    std::unique_ptr<EmulatedThread> thread;
    EmulatedBlock* block = nullptr;
    const Meeting* meeting = nullptr;
    uint64_t round = 0;
    bool done = false;
  };

  static void enter(unsigned low, unsigned high);
  void start_block(int64_t number);
  void resume(Fiber& fiber);

  int threads_, shared_;
  std::mt19937_64 random_;
  const EmulatedKernel* kernel_ = nullptr;
  std::vector<std::unique_ptr<EmulatedBlock>> blocks_;
  std::vector<std::unique_ptr<Fiber>> fibers_, spare_;
  Fiber* current_ = nullptr;
  ucontext_t scheduler_;
  std::exception_ptr error_;
  int64_t idle_ = 0;  // switches since the last progress
};

}  // namespace troupe::test
