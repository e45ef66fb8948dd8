// Exchanges of the "nccl" backend on the stub of CUDA and NCCL: what they do when calls stay in progress, fail or hang.

#include <algorithm>
#include <array>
#include <cstring>
#include <latch>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "tests/runtime/weights/nccl_ranks.h"
#include "tests/support/fake_nccl/fake_gpu.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using Clock = std::chrono::steady_clock;
using Direction = PeerBuffer::Direction;
using Kind = TransferError::Kind;

namespace {

// What a rank exchanges with each other one: `bytes` bytes that have its number.
struct Memory {
  Memory(const ProcessGroup& group, size_t bytes) {
    for (int other = 0; other < group.size(); ++other) {
      if (other == group.rank()) continue;
      out.push_back(std::vector<uint8_t>(bytes, static_cast<uint8_t>(group.rank() + 1)));
      in.push_back(std::vector<uint8_t>(bytes));
      wanted.push_back(std::vector<uint8_t>(bytes, static_cast<uint8_t>(other + 1)));
      parts.push_back({Direction::send, other, {out.back().data(), bytes}});
      parts.push_back({Direction::receive, other, {in.back().data(), bytes}});
    }
  }
  std::vector<std::vector<uint8_t>> out, in, wanted;
  std::vector<PeerBuffer> parts;
};

// Exchanges of all ranks with all; a rank leaves when all have ended.
std::vector<Action> exchanging(size_t ranks, size_t bytes, std::chrono::milliseconds timeout, int repeats = 1) {
  const auto all_ended = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(ranks));
  const Action action = [=](ProcessGroup& group) {
    const std::shared_ptr<void> at_end(nullptr, [&](void*) { all_ended->arrive_and_wait(); });
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const Memory memory(group, bytes);
      group.start_exchange(memory.parts)->wait(timeout);
      CHECK((memory.in == memory.wanted));
    }
  };
  return std::vector<Action>(ranks, action);
}

}  // namespace

TEST_CASE("nccl: an exchange whose calls stay in progress for a while is only delayed") {
  const Bench bench;
  fake_gpu::set_faults({.init_polls = 50, .launch_polls = 20});
  for (const Error& error : run(exchanging(3, 3 * kPiece + 5, kPatience))) CHECK(text_of(error) == "");
}

TEST_CASE("nccl: exchanges use the memory that their group has, however many there are") {
  const Bench bench;
  const auto allocated_by = [](int repeats) {
    const uint64_t before = fake_gpu::allocations();
    for (const Error& error : run(exchanging(3, 20'000, kPatience, repeats))) CHECK(text_of(error) == "");
    return fake_gpu::allocations() - before;
  };
  const uint64_t once = allocated_by(1);
  CHECK(once == 3 * 2 * NcclSession::kSlots);
  CHECK(allocated_by(50) == once);
}

TEST_CASE("nccl: memory on the GPU is sent from it and received into it, beside memory of the host") {
  const Bench bench;
  constexpr size_t kBytes = 2 * kPiece + 3;
  std::latch both(2);
  const Action action = [&](ProcessGroup& group) {
    std::vector<uint8_t> host(kBytes, static_cast<uint8_t>(7 + group.rank()));
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, kBytes) == cudaSuccess);
    const std::span device(static_cast<uint8_t*>(memory), kBytes);
    std::ranges::fill(device, uint8_t{9});
    const Buffer on_host{host.data(), kBytes}, on_device{memory, kBytes, Device::cuda};
    const int other = 1 - group.rank();
    // Rank 0 sends from the host and receives on the device, and then the other way round.
    group
        .start_exchange(
            std::array<PeerBuffer, 2>{{{Direction::send, other, on_host}, {Direction::receive, other, on_device}}})
        ->wait(kPatience);
    CHECK(std::ranges::count(device, static_cast<uint8_t>(7 + other)) == std::ptrdiff_t{kBytes});
    std::ranges::fill(device, static_cast<uint8_t>(20 + group.rank()));
    group
        .start_exchange(
            std::array<PeerBuffer, 2>{{{Direction::receive, other, on_host}, {Direction::send, other, on_device}}})
        ->wait(kPatience);
    CHECK(std::ranges::count(host, static_cast<uint8_t>(20 + other)) == std::ptrdiff_t{kBytes});
    cudaFree(memory);
    both.arrive_and_wait();
  };
  for (const Error& error : run({action, action})) CHECK(text_of(error) == "");
}

TEST_CASE("nccl: an exchange that is never launched, or whose kernel never ends, times out and names its ranks") {
  for (const fake_gpu::Faults& faults :
       {fake_gpu::Faults{.launch_polls = fake_gpu::kForEver}, fake_gpu::Faults{.kernels_hang = true}}) {
    const Bench bench;
    fake_gpu::set_faults(faults);
    const auto start = Clock::now();
    const auto errors = run(exchanging(3, 10 * kPiece, kNcclShort));
    CHECK(Clock::now() - start < kPatience / 2);
    const auto is_timeout = [](const Error& error) { return error && error->kind() == Kind::timeout; };
    const auto first = std::ranges::find_if(errors, is_timeout);
    REQUIRE(first != errors.end());  // the others may see first that this one has left
    CHECK((*first)->ranks().size() == 2);
    for (const Error& error : errors) CHECK(error);
  }
}

TEST_CASE("nccl: a remote error ends an exchange that hangs") {
  check_remote_error([](ProcessGroup& group, const auto& wait) {
    const Memory memory(group, kPiece);
    wait(*group.start_exchange(memory.parts));
  });
}

TEST_CASE("nccl: a receive of another size than its send is an error") {
  const Bench bench;
  const auto errors = run({[](ProcessGroup& group) {
                             std::vector<uint8_t> memory(1000);
                             group.start_send({memory.data(), memory.size()}, 1)->wait(kPatience);
                           },
                           [](ProcessGroup& group) {
                             std::vector<uint8_t> memory(999);
                             group.start_receive({memory.data(), memory.size()}, 0)->wait(kForever);
                           }});
  CHECK(text_of(errors[1]) == "NCCL: invalid usage");
}

TEST_CASE("nccl: a stop ends an exchange that hangs") {
  const Bench bench;
  fake_gpu::set_faults({.kernels_hang = true});
  const auto backend = make_nccl_backend({});
  Rendezvous r = backend->host();
  r.size = 2;
  std::stop_source stop;
  std::latch begun(3);
  std::array<Error, 2> errors;
  std::vector<std::jthread> threads;
  for (r.rank = 0; r.rank < 2; ++r.rank)
    threads.emplace_back([&, r] {
      errors[static_cast<size_t>(r.rank)] = error_of([&] {
        const auto group = backend->join(r, kPatience, stop.get_token());
        const Memory memory(*group, kPiece);
        const auto transfer = group->start_exchange(memory.parts);
        begun.arrive_and_wait();
        transfer->wait(kForever);
      });
    });
  begun.arrive_and_wait();
  stop.request_stop();
  threads.clear();
  CHECK(std::ranges::any_of(errors, [](const Error& error) { return error && error->kind() == Kind::stopped; }));
  for (const Error& error : errors) CHECK(error);
}

// Rank 1's kernel waits for rank 0, its abort hangs, and its memory is freed. Then rank 0 comes: its bytes must go into
// memory that still exists. AddressSanitizer sees it if they do not.
TEST_CASE("nccl: an abort that hangs keeps the memory that the kernel of an exchange may still use") {
  const Bench bench;
  fake_gpu::set_faults({.rank = 1, .abort_hangs = true});
  std::latch freed(2);
  const auto start = Clock::now();
  const auto errors = run({[&](ProcessGroup& group) {
                             const Memory memory(group, kPiece);
                             freed.arrive_and_wait();
                             group.start_exchange(memory.parts)->wait(kPatience);
                           },
                           [&](ProcessGroup& group) {
                             const auto memory = std::make_unique<Memory>(group, kPiece);
                             const Error error =
                                 error_of([&] { group.start_exchange(memory->parts)->wait(kNcclShort); });
                             freed.arrive_and_wait();
                             if (error) throw *error;
                           }});
  CHECK(Clock::now() - start < kPatience / 2);
  REQUIRE(errors[1]);
  CHECK(errors[1]->kind() == Kind::timeout);
  CHECK(text_of(errors[1]) == "rank 0: no progress within 200 ms");
  CHECK(fake_gpu::hanging_aborts() == 1);
  CHECK(fake_gpu::existing().communicators == 1);
  CHECK(fake_gpu::existing().device_blocks == static_cast<int>(NcclSession::kSlots));
}
