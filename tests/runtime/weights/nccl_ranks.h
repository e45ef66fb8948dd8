#pragma once
// Groups of the "nccl" backend on its stub, whose ranks are threads of the test.

#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/weights/process_group_nccl.h"
#include "runtime/weights/process_group_session_nccl.h"
#include "tests/runtime/weights/group_ranks.h"
#include "tests/support/fake_nccl/fake_gpu.h"
#include "tests/support/test.h"

namespace troupe::test {

inline constexpr auto kNcclShort = std::chrono::milliseconds(200);  // for operations that must time out
inline constexpr size_t kPiece = NcclSession::kPieceBytes;

// At its end nothing may be left: no communicator, stream, event or memory.
struct Bench {
  ~Bench() {
    fake_gpu::release();
    CHECK(sessions_have_ended(Deadline(kPatience), {}));
    CHECK(fake_gpu::existing() == fake_gpu::Existing{});
    fake_gpu::set_devices(1);
  }
};

using Error = std::optional<TransferError>;

inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const TransferError& error) {
    return error;
  }
  return std::nullopt;
}

// How each rank of a group ended; a rank is a thread.
inline std::vector<Error> run(const std::vector<Action>& actions, std::chrono::milliseconds join_timeout = kPatience,
                              int device = 0) {
  static uint64_t generation = 1000;
  const auto backend = make_nccl_backend({.device = device});
  Rendezvous r = backend->host();
  r.generation = ++generation;
  r.size = static_cast<int>(actions.size());
  std::vector<Error> errors(actions.size());
  std::vector<std::jthread> threads;
  for (const Action& action : actions) {
    threads.emplace_back(
        [&, r] { errors[static_cast<size_t>(r.rank)] = error_of([&] { action(*backend->join(r, join_timeout)); }); });
    ++r.rank;
  }
  threads.clear();
  return errors;
}

inline std::string text_of(const Error& error) { return error ? error->what() : ""; }

// Two ranks wait in a kernel that hangs until NCCL reports a remote error, which ends the wait. `begin` starts a
// transfer of a group, and calls its other argument with it while the memory of the transfer exists.
inline void check_remote_error(
    const std::function<void(ProcessGroup& group, const std::function<void(Transfer&)>& wait)>& begin) {
  const Bench bench;
  fake_gpu::set_faults({.kernels_hang = true});
  std::latch begun(3);
  const Action action = [&](ProcessGroup& group) {
    begin(group, [&](Transfer& transfer) {
      begun.arrive_and_wait();
      transfer.wait(kForever);
    });
  };
  std::jthread failing([&] {
    begun.arrive_and_wait();
    fake_gpu::fail_communicators(ncclRemoteError);
  });
  bool remote = false;
  for (const Error& error : run({action, action})) {
    REQUIRE(error);
    CHECK(error->kind() == TransferError::Kind::peer_lost);
    remote |= text_of(error) == "NCCL: remote process exited or there was a network error";
  }
  CHECK(remote);  // the other rank may see first that this one has left
}

}  // namespace troupe::test
