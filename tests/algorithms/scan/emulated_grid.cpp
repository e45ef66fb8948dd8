#include "tests/algorithms/scan/emulated_grid.h"

#include <algorithm>
#include <iterator>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace troupe::test {

namespace {

// Tells AddressSanitizer which stack is in use.
void before_switch([[maybe_unused]] void** own, [[maybe_unused]] const void* stack,
                   [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(own, stack, bytes);
#endif
}
void after_switch([[maybe_unused]] void* own, [[maybe_unused]] const void** from, [[maybe_unused]] std::size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(own, from, bytes);
#endif
}

const void* scheduler_stack = nullptr;
std::size_t scheduler_stack_bytes = 0;

}  // namespace

float EmulatedThread::shuffle_down(float x, int by) {
  block_.numbers[static_cast<std::size_t>(index_)] = x;
  Meeting& warp_meeting = block_.warps[static_cast<std::size_t>(warp())];
  meet(warp_meeting, by);
  const float result = lane() + by < 32 ? block_.numbers[static_cast<std::size_t>(index_ + by)] : x;
  meet(warp_meeting, by);
  return result;
}

float EmulatedThread::shuffle(float x, int lane) {
  block_.numbers[static_cast<std::size_t>(index_)] = x;
  Meeting& warp_meeting = block_.warps[static_cast<std::size_t>(warp())];
  meet(warp_meeting, 100);
  const float result = block_.numbers[first_of_warp() + static_cast<std::size_t>(lane)];
  meet(warp_meeting, 100);
  return result;
}

uint32_t EmulatedThread::ballot(bool x) {
  block_.votes[static_cast<std::size_t>(index_)] = x;
  Meeting& warp_meeting = block_.warps[static_cast<std::size_t>(warp())];
  meet(warp_meeting, 101);
  uint32_t result = 0;
  for (std::size_t i = 0; i < 32; ++i) result |= uint32_t{block_.votes[first_of_warp() + i]} << i;
  meet(warp_meeting, 101);
  return result;
}

uint64_t EmulatedThread::load_relaxed(const uint64_t* from) {
  const uint64_t x = *from;
  if (x == 0 || grid_.random() % 4 == 0) grid_.looked_in_vain();
  return x;
}

void EmulatedThread::store_relaxed(uint64_t* to, uint64_t x) {
  if (grid_.random() % 2 == 0) grid_.looked_in_vain();
  *to = x;
  grid_.progressed();
}

void EmulatedThread::meet(Meeting& meeting, int operation) {
  if (meeting.come > 0 && meeting.operation != operation)
    throw std::logic_error("lanes of a warp request different operations: " + std::to_string(meeting.operation) +
                           " and " + std::to_string(operation));
  meeting.operation = operation;
  grid_.progressed();
  const uint64_t round = meeting.rounds;
  if (++meeting.come == meeting.wanted) {
    meeting.come = 0;
    ++meeting.rounds;
  } else {
    grid_.wait(meeting, round);
  }
}

void EmulatedGrid::wait(const Meeting& meeting, uint64_t round) {
  current_->meeting = &meeting;
  current_->round = round;
  Fiber& self = *current_;
  void* own = nullptr;
  before_switch(&own, scheduler_stack, scheduler_stack_bytes);
  swapcontext(&self.context, &scheduler_);
  after_switch(own, &scheduler_stack, &scheduler_stack_bytes);
  self.meeting = nullptr;
}

void EmulatedGrid::looked_in_vain() {
  Fiber& self = *current_;
  void* own = nullptr;
  before_switch(&own, scheduler_stack, scheduler_stack_bytes);
  swapcontext(&self.context, &scheduler_);
  after_switch(own, &scheduler_stack, &scheduler_stack_bytes);
}

void EmulatedGrid::enter(unsigned low, unsigned high) {
  auto* grid = reinterpret_cast<EmulatedGrid*>(uintptr_t{low} | uintptr_t{high} << 32);
  after_switch(nullptr, &scheduler_stack, &scheduler_stack_bytes);
  Fiber& self = *grid->current_;
  try {
    (*grid->kernel_)(*self.thread, self.block->shared);
  } catch (...) {
    grid->error_ = std::current_exception();
  }
  self.done = true;
  grid->progressed();
  before_switch(nullptr, scheduler_stack, scheduler_stack_bytes);
  swapcontext(&self.context, &grid->scheduler_);
}

void EmulatedGrid::start_block(int64_t number) {
  auto block = std::make_unique<EmulatedBlock>();
  block->number = number;
  // The initial contents of shared memory are undefined; here they read as NaN.
  block->memory.assign(static_cast<std::size_t>(shared_) + 16, 0xff);
  block->shared = block->memory.data() + (16 - reinterpret_cast<uintptr_t>(block->memory.data()) % 16) % 16;
  block->everyone.wanted = threads_;
  block->warps.resize(static_cast<std::size_t>(threads_ / 32));
  for (Meeting& warp : block->warps) warp.wanted = 32;
  block->numbers.resize(static_cast<std::size_t>(threads_));
  block->votes.resize(static_cast<std::size_t>(threads_));
  block->running = threads_;
  for (int i = 0; i < threads_; ++i) {
    std::unique_ptr<Fiber> fiber;
    if (spare_.empty()) {
      fiber = std::make_unique<Fiber>();
      fiber->stack = std::make_unique_for_overwrite<unsigned char[]>(kStack);
    } else {
      fiber = std::move(spare_.back());
      spare_.pop_back();
    }
    fiber->thread = std::make_unique<EmulatedThread>(*this, *block, i);
    fiber->block = block.get();
    fiber->meeting = nullptr;
    fiber->done = false;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStack;
    fiber->context.uc_link = &scheduler_;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&fiber->context, reinterpret_cast<void (*)()>(&EmulatedGrid::enter), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32));
    fibers_.push_back(std::move(fiber));
  }
  blocks_.push_back(std::move(block));
}

void EmulatedGrid::resume(Fiber& fiber) {
  current_ = &fiber;
  void* own = nullptr;
  before_switch(&own, fiber.stack.get(), kStack);
  swapcontext(&scheduler_, &fiber.context);
  after_switch(own, nullptr, nullptr);
}

void EmulatedGrid::run(const EmulatedKernel& kernel, int64_t blocks, int resident) {
  kernel_ = &kernel;
  int64_t next = 0;
  idle_ = 0;
  while (!error_) {
    while (next < blocks && static_cast<int>(blocks_.size()) < resident) start_block(next++);
    if (fibers_.empty()) return;
    // Runs each fiber in turn, starting at a random one and in a random direction, so that the order is random.
    const std::size_t n = fibers_.size(), from = random_() % n;
    const bool down = random_() % 2 == 0;
    for (std::size_t i = 0; i < n && !error_; ++i) {
      Fiber& fiber = *fibers_[(down ? from + n - i : from + i) % n];
      if (fiber.done || (fiber.meeting && fiber.meeting->rounds == fiber.round) || random_() % 8 == 0) continue;
      resume(fiber);
      if (fiber.done) --fiber.block->running;
    }
    if (++idle_ > 100000) throw std::logic_error("no thread can continue");
    const auto ended = std::stable_partition(fibers_.begin(), fibers_.end(), [](const auto& f) { return !f->done; });
    std::move(ended, fibers_.end(), std::back_inserter(spare_));
    fibers_.erase(ended, fibers_.end());
    std::erase_if(blocks_, [](const auto& block) { return block->running == 0; });
  }
  std::rethrow_exception(error_);
}

}  // namespace troupe::test
