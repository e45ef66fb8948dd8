// The "nccl" backend on the stub of CUDA and NCCL in tests/support/fake_nccl: what it does when calls stay in progress,
// fail or hang, and what it allocates and frees. Ranks are threads of this process, because the stub is not shared
// between processes.

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <latch>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "runtime/weights/process_group_nccl.h"
#include "runtime/weights/process_group_session_nccl.h"
#include "runtime/weights/receiver.h"
#include "runtime/weights/sender.h"
#include "tests/runtime/weights/nccl_ranks.h"
#include "tests/runtime/weights/process_group_conformance.h"
#include "tests/runtime/weights/weight_fixture.h"
#include "tests/support/fake_nccl/fake_gpu.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Kind = TransferError::Kind;

namespace troupe::test {
std::vector<std::shared_ptr<GroupBackend>> backends_under_test() { return {make_nccl_backend({})}; }
}  // namespace troupe::test

namespace {

// Broadcasts from rank 0; a rank leaves when all have ended.
std::vector<Action> broadcasting(size_t ranks, size_t bytes, std::chrono::milliseconds timeout, int repeats = 1) {
  const auto all_ended = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(ranks));
  const Action action = [=](ProcessGroup& group) {
    const std::shared_ptr<void> at_end(nullptr, [&](void*) { all_ended->arrive_and_wait(); });
    for (int repeat = 1; repeat <= repeats; ++repeat) {
      std::vector<uint8_t> memory(bytes, group.rank() == 0 ? static_cast<uint8_t>(repeat) : uint8_t{0});
      group.broadcast({memory.data(), bytes}, 0, timeout);
      CHECK((memory == std::vector<uint8_t>(bytes, static_cast<uint8_t>(repeat))));
    }
  };
  return std::vector<Action>(ranks, action);
}

}  // namespace

TEST_CASE("nccl: calls that stay in progress for a while delay an operation and nothing else") {
  const Bench bench;
  fake_gpu::set_faults({.init_polls = 50, .launch_polls = 20});
  for (const Error& error : run(broadcasting(3, 3 * kPiece + 5, kPatience))) CHECK(text_of(error) == "");
}

TEST_CASE("nccl: communicators that are in order are finalized, not aborted") {
  const Bench bench;
  const uint64_t aborts = fake_gpu::aborts(), finalized = fake_gpu::finalized();
  for (const Error& error : run(broadcasting(2, kPiece, kPatience))) CHECK(text_of(error) == "");
  CHECK(sessions_have_ended(Deadline(kPatience), {}));
  CHECK(fake_gpu::finalized() == finalized + 2);
  CHECK(fake_gpu::aborts() == aborts);
}

TEST_CASE("nccl: memory is allocated once for a group, however many buckets it moves") {
  const Bench bench;
  const auto allocated_by = [](int repeats) {
    const uint64_t before = fake_gpu::allocations();
    for (const Error& error : run(broadcasting(2, 20'000, kPatience, repeats))) CHECK(text_of(error) == "");
    return fake_gpu::allocations() - before;
  };
  const uint64_t once = allocated_by(1);
  CHECK(once == 2 * 2 * NcclSession::kSlots);
  CHECK(allocated_by(100) == once);
}

TEST_CASE("nccl: what fits into the store allocates nothing on the GPU") {
  const Bench bench;
  const uint64_t before = fake_gpu::allocations();
  for (const Error& error : run(broadcasting(2, 4096, kPatience))) CHECK(text_of(error) == "");
  CHECK(fake_gpu::allocations() == before);
}

TEST_CASE("nccl: memory on the GPU is broadcast from it and into it") {
  const Bench bench;
  constexpr size_t kBytes = 2 * kPiece + 3;
  std::latch both(2);
  const Action action = [&](ProcessGroup& group) {
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, kBytes) == cudaSuccess);
    std::memset(memory, group.rank() == 1 ? 7 : 0, kBytes);
    group.broadcast({memory, kBytes, Device::cuda}, 1, kPatience);
    CHECK(std::ranges::count(std::span(static_cast<uint8_t*>(memory), kBytes), 7) == std::ptrdiff_t{kBytes});
    cudaFree(memory);
    both.arrive_and_wait();
  };
  for (const Error& error : run({action, action})) CHECK(text_of(error) == "");
}

TEST_CASE("nccl: a group uses the GPU of its backend, from whichever thread") {
  const Bench bench;
  fake_gpu::set_devices(2);
  const uint64_t first = fake_gpu::allocations_on(0), second = fake_gpu::allocations_on(1);
  for (const Error& error : run(broadcasting(2, kPiece, kPatience), kPatience, 1)) CHECK(text_of(error) == "");
  CHECK(fake_gpu::allocations_on(0) == first);
  CHECK(fake_gpu::allocations_on(1) > second);
}

TEST_CASE("nccl: a GPU that the machine does not have is refused") {
  const Bench bench;
  fake_gpu::set_devices(2);
  CHECK_THROWS_WITH_AS(make_nccl_backend({.device = 2}),
                       "nccl: this machine has no GPU with number 2, they are 0 to 1; use gloo", ConfigError);
  CHECK_THROWS_AS(make_nccl_backend({.device = -1}), ConfigError);
  fake_gpu::set_devices(0);
  CHECK_THROWS_WITH_AS(make_nccl_backend({}), "nccl: no CUDA-capable device is detected; use gloo", ConfigError);
}

TEST_CASE("nccl: an init that fails, and one that never completes, end with an error in time") {
  const Bench bench;
  const std::vector<Action> nothing(2, [](ProcessGroup&) { FAIL("joined"); });
  fake_gpu::set_faults({.init_result = ncclSystemError});
  for (const Error& error : run(nothing)) {
    REQUIRE(error);
    CHECK(error->kind() == Kind::peer_lost);
    CHECK(text_of(error) == "ncclCommInitRankConfig: unhandled system error");
  }
  fake_gpu::set_faults({.init_polls = fake_gpu::kForEver});
  const auto start = Clock::now();
  const auto errors = run(nothing, kNcclShort);
  CHECK(Clock::now() - start < kPatience / 2);
  for (const Error& error : errors) REQUIRE(error);
  CHECK((errors[0]->kind() == Kind::timeout || errors[1]->kind() == Kind::timeout));
}

TEST_CASE("nccl: a broadcast that is never launched, or whose kernel never ends, times out") {
  for (const fake_gpu::Faults& faults :
       {fake_gpu::Faults{.launch_polls = fake_gpu::kForEver}, fake_gpu::Faults{.kernels_hang = true}}) {
    const Bench bench;
    fake_gpu::set_faults(faults);
    const auto start = Clock::now();
    const Error alone = run(broadcasting(1, 10 * kPiece, kNcclShort))[0];
    REQUIRE(alone);
    CHECK(alone->kind() == Kind::timeout);
    CHECK(text_of(alone) == "no progress within 200 ms");
    bool timeout = false;
    for (const Error& error : run(broadcasting(2, 10 * kPiece, kNcclShort))) {
      REQUIRE(error);
      timeout |= error->kind() == Kind::timeout;
    }
    CHECK(timeout);  // the other rank may see first that this one has left
    CHECK(Clock::now() - start < kPatience / 2);
  }
}

TEST_CASE("nccl: the error of a rank that waits in vain has the root's number") {
  const Bench bench;
  std::latch over(2);
  const auto errors = run({[&](ProcessGroup&) { over.arrive_and_wait(); },
                           [&](ProcessGroup& group) {
                             std::vector<uint8_t> memory(kPiece);
                             const Error error =
                                 error_of([&] { group.broadcast({memory.data(), memory.size()}, 0, kNcclShort); });
                             over.arrive_and_wait();
                             if (error) throw *error;
                           }});
  REQUIRE(errors[1]);
  CHECK(errors[1]->kind() == Kind::timeout);
  CHECK(text_of(errors[1]) == "rank 0: no progress within 200 ms");
}

TEST_CASE("nccl: a remote error ends a broadcast that hangs") {
  check_remote_error([](ProcessGroup& group, const auto& wait) {
    std::vector<uint8_t> memory(kPiece);
    wait(*group.start_broadcast({memory.data(), memory.size()}, 0));
  });
}

TEST_CASE("nccl: a stop ends a broadcast that hangs") {
  const Bench bench;
  fake_gpu::set_faults({.kernels_hang = true});
  const auto backend = make_nccl_backend({});
  Rendezvous r = backend->host();
  r.size = 1;
  std::stop_source stop;
  Error error;
  {
    const auto group = backend->join(r, kPatience, stop.get_token());
    std::vector<uint8_t> memory(kPiece);
    const auto transfer = group->start_broadcast({memory.data(), memory.size()}, 0);
    std::jthread stopping([&] { stop.request_stop(); });
    error = error_of([&] { transfer->wait(kForever); });
  }
  REQUIRE(error);
  CHECK(error->kind() == Kind::stopped);
}

TEST_CASE("nccl: a finalize that hangs ends in an abort") {
  const Bench bench;
  fake_gpu::set_faults({.finalize_hangs = true});
  const uint64_t aborts = fake_gpu::aborts();
  for (const Error& error : run(broadcasting(2, kPiece, kPatience))) CHECK(text_of(error) == "");
  CHECK(sessions_have_ended(Deadline(kPatience), {}));
  CHECK(fake_gpu::aborts() == aborts + 2);
}

// The receiver's kernel waits for the root, its abort hangs, and its memory is freed. Then the root comes: its bytes
// must go into memory that still exists. AddressSanitizer sees it if they do not.
TEST_CASE("nccl: an abort that hangs keeps the memory that a kernel may still use") {
  const Bench bench;
  fake_gpu::set_faults({.rank = 1, .abort_hangs = true});
  std::latch freed(2);
  const auto start = Clock::now();
  const auto errors = run({[&](ProcessGroup& group) {
                             std::vector<uint8_t> memory(kPiece, 3);
                             freed.arrive_and_wait();
                             group.broadcast({memory.data(), memory.size()}, 0, kPatience);
                           },
                           [&](ProcessGroup& group) {
                             const auto memory = std::make_unique<std::array<uint8_t, kPiece>>();
                             const Error error =
                                 error_of([&] { group.broadcast({memory->data(), memory->size()}, 0, kNcclShort); });
                             freed.arrive_and_wait();
                             if (error) throw *error;
                           }});
  CHECK(Clock::now() - start < kPatience / 2);
  REQUIRE(errors[1]);
  CHECK(errors[1]->kind() == Kind::timeout);
  CHECK(fake_gpu::hanging_aborts() == 1);
  CHECK(fake_gpu::existing().communicators == 1);
  CHECK(fake_gpu::existing().device_blocks == static_cast<int>(NcclSession::kSlots));
}

TEST_CASE("nccl: while an abort hangs no group can be joined, and afterwards one can") {
  const Bench bench;
  fake_gpu::set_faults({.rank = 0, .kernels_hang = true, .abort_hangs = true});
  CHECK(run(broadcasting(1, kPiece, kNcclShort))[0]);
  REQUIRE(fake_gpu::hanging_aborts() == 1);
  fake_gpu::set_faults({.abort_hangs = true});
  const Error refused = run(broadcasting(1, kPiece, kPatience), kNcclShort)[0];
  REQUIRE(refused);
  CHECK(refused->kind() == Kind::timeout);
  CHECK(text_of(refused) == "an earlier communicator of this process has not ended");
  fake_gpu::release();
  CHECK(text_of(run(broadcasting(1, kPiece, kPatience))[0]) == "");
}

TEST_CASE("nccl: weights reach a receiver, and after a remote error both ends meet again and it gets the next ones") {
  const Bench bench;
  const auto backend = make_nccl_backend({});
  const auto signature = signature_of(300'000);
  const ChannelOptions options{.connect_timeout = kPatience, .transfer_timeout = kPatience};
  const auto slot = std::make_shared<WeightSlot>();
  WeightReceiver receiver(backend, signature, slot, options);
  WeightSender sender(backend, signature, [&](InferenceIndex, const Rendezvous& r) { receiver.invite(r); }, options);
  std::jthread receiving([&] {
    while (receiver.step().did != ReceiverStep::Did::stopped) {
    }
  });
  const std::shared_ptr<void> at_end(nullptr, [&](void*) { receiver.stop(); });
  REQUIRE_FALSE(sender.admit(1, *signature));
  for (uint64_t version = 1; version <= 20; ++version) {
    if (version == 10) fake_gpu::fail_communicators(ncclRemoteError);
    REQUIRE(sender.publish(weights_of(signature, {0, version})));
    int failures = 0;
    while (sender.wait_for_work(0ms)) failures += sender.step().did == SenderStep::Did::failed;
    if (const auto reports = sender.receivers(); reports[0].state == ReceiverReport::State::lost) {
      REQUIRE_FALSE(sender.admit(1, *signature));
      while (sender.wait_for_work(0ms)) failures += sender.step().did == SenderStep::Did::failed;
    }
    CHECK((failures > 0) == (version == 10));
    REQUIRE(slot->get());
    CHECK(slot->get()->version.number == version);
    CHECK(whole(slot->get()));
  }
}
