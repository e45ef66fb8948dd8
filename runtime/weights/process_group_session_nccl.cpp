#include "runtime/weights/process_group_session_nccl.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/base/mutex.h"

namespace troupe {

namespace {

using std::chrono::milliseconds;
using Kind = TransferError::Kind;

// For the other ranks to end the communicator too. Those that do not know that this one leaves, or that were killed,
// do not come.
constexpr milliseconds kFinalizeLimit{500};

void check_cuda(cudaError_t result, const char* what) {
  if (result != cudaSuccess)
    throw TransferError(Kind::peer_lost, {}, std::string(what) + ": " + cudaGetErrorString(result));
}

void check_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw TransferError(Kind::peer_lost, {}, std::string(what) + ": " + ncclGetErrorString(result));
}

bool is_over(cudaEvent_t event, const char* what) {
  const cudaError_t state = cudaEventQuery(event);
  if (state != cudaErrorNotReady) check_cuda(state, what);
  return state == cudaSuccess;
}

// The sessions of this process whose end goes on.
struct Endings {
  Mutex mutex;
  std::condition_variable_any changed;
  int running TROUPE_GUARDED_BY(mutex) = 0;
};

// Never destroyed: a thread whose end hangs may still use it when the program ends.
Endings& endings() {
  static Endings& all = *new Endings;
  return all;
}

// Whether the communicator became idle, without an error, before the limit.
bool becomes_idle(ncclComm_t comm, milliseconds limit) {
  const Deadline deadline(limit);
  for (;;) {
    ncclResult_t state = ncclInternalError;
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) return false;
    if (state != ncclInProgress) return state == ncclSuccess;
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(milliseconds(1));  // NCCL has no other way to wait with a limit
  }
}

}  // namespace

std::string NcclSession::new_id() {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return {id.internal, sizeof id.internal};
}

NcclSession::NcclSession(int device, int rank, int size, const std::string& id) : device_(device) {
  ncclUniqueId members{};
  if (id.size() != sizeof members.internal)
    throw missing_ranks(Kind::protocol, {0}, "its NCCL has an id of another size");
  std::memcpy(members.internal, id.data(), id.size());
  use_device();
  try {
    for (cudaStream_t* stream : {&kernels_, &out_, &local_})
      check_cuda(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "cudaStreamCreate");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check_nccl(ncclCommInitRankConfig(&comm_, size, members, rank, &config), "ncclCommInitRankConfig");
  } catch (...) {
    if (comm_) ncclCommAbort(std::exchange(comm_, nullptr));  // nothing is under way
    release();
    throw;
  }
}

NcclSession::~NcclSession() { release(); }

void NcclSession::release() {
  for (Slot& slot : slots_) {
    if (slot.ready) cudaEventDestroy(slot.ready);
    if (slot.done) cudaEventDestroy(slot.done);
    if (slot.host) cudaFreeHost(slot.host);
    if (slot.device) cudaFree(slot.device);
    slot = {};
  }
  for (cudaStream_t stream : {kernels_, out_, local_})
    if (stream) cudaStreamDestroy(stream);
  kernels_ = out_ = local_ = nullptr;
}

void NcclSession::use_device() const { check_cuda(cudaSetDevice(device_), "cudaSetDevice"); }

bool NcclSession::idle() const {
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
  check_nccl(state, "NCCL");
  return state == ncclSuccess;
}

// Nothing of this session is in flight yet: an allocation could otherwise wait for a kernel, and so for a peer.
void NcclSession::allocate() {
  for (Slot& slot : slots_) {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, kPieceBytes), "cudaMalloc");
    slot.device = static_cast<std::byte*>(memory);
    check_cuda(cudaMallocHost(&memory, kPieceBytes), "cudaMallocHost");
    slot.host = static_cast<std::byte*>(memory);
    check_cuda(cudaEventCreateWithFlags(&slot.ready, cudaEventDisableTiming), "cudaEventCreate");
    check_cuda(cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming), "cudaEventCreate");
  }
  allocated_ = true;
}

NcclSession::Slot* NcclSession::take_slot() {
  if (!allocated_) allocate();
  for (Slot& slot : slots_)
    if (!std::exchange(slot.used, true)) return &slot;
  return nullptr;
}

void NcclSession::copy_in(Slot& slot, std::span<const Part> parts) {
  for (const Part& part : parts) {
    if (!part.sends()) continue;
    const bool on_device = part.use == Use::send_from_device;
    const std::byte* from = on_device ? part.memory : slot.host + part.offset;
    const cudaMemcpyKind kind = on_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
    check_cuda(cudaMemcpyAsync(slot.device + part.offset, from, part.bytes, kind, local_), "cudaMemcpyAsync");
  }
  check_cuda(cudaEventRecord(slot.ready, local_), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(kernels_, slot.ready, 0), "cudaStreamWaitEvent");
}

void NcclSession::broadcast(Slot& slot, const Part& part) {
  if (part.sends()) copy_in(slot, {&part, 1});
  std::byte* memory = slot.device + part.offset;
  check_nccl(ncclBroadcast(memory, memory, part.bytes, ncclUint8, part.peer, comm_, kernels_), "ncclBroadcast");
}

void NcclSession::exchange(Slot& slot, std::span<const Part> parts) {
  copy_in(slot, parts);
  check_nccl(ncclGroupStart(), "ncclGroupStart");
  ncclResult_t failed = ncclSuccess;
  for (const Part& part : parts) {
    std::byte* memory = slot.device + part.offset;
    const ncclResult_t result = part.sends() ? ncclSend(memory, part.bytes, ncclUint8, part.peer, comm_, kernels_)
                                             : ncclRecv(memory, part.bytes, ncclUint8, part.peer, comm_, kernels_);
    if (failed == ncclSuccess) failed = result;
    if (failed == ncclInProgress) failed = ncclSuccess;
  }
  const ncclResult_t ended = ncclGroupEnd();  // also after a failure: the group belongs to the thread
  check_nccl(failed, "ncclSend or ncclRecv");
  check_nccl(ended, "ncclGroupEnd");
}

void NcclSession::finish_launch(Slot& slot, std::span<const Part> parts) {
  const auto on_host = [](const Part& part) { return part.use == Use::receive_on_host; };
  if (std::ranges::none_of(parts, on_host)) return check_cuda(cudaEventRecord(slot.done, kernels_), "cudaEventRecord");
  check_cuda(cudaEventRecord(slot.ready, kernels_), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(out_, slot.ready, 0), "cudaStreamWaitEvent");
  for (const Part& part : parts)
    if (on_host(part))
      check_cuda(
          cudaMemcpyAsync(slot.host + part.offset, slot.device + part.offset, part.bytes, cudaMemcpyDeviceToHost, out_),
          "cudaMemcpyAsync");
  check_cuda(cudaEventRecord(slot.done, out_), "cudaEventRecord");
}

bool NcclSession::has_ended(const Slot& slot) const { return is_over(slot.done, "NCCL"); }

void NcclSession::copy_out(Slot& slot, std::span<const Part> parts) {
  for (const Part& part : parts)
    if (part.use == Use::receive_on_device)
      check_cuda(cudaMemcpyAsync(part.memory, slot.device + part.offset, part.bytes, cudaMemcpyDeviceToDevice, local_),
                 "cudaMemcpyAsync");
  check_cuda(cudaEventRecord(slot.done, local_), "cudaEventRecord");
}

void NcclSession::finish_copies() const { cudaStreamSynchronize(local_); }

void NcclSession::end(bool healthy, milliseconds limit) {
  cudaSetDevice(device_);
  const ncclComm_t comm = std::exchange(comm_, nullptr);
  if (!comm) return;
  if (healthy) {
    const ncclResult_t begun = ncclCommFinalize(comm);
    healthy = (begun == ncclSuccess || begun == ncclInProgress) && becomes_idle(comm, limit);
  }
  if (healthy) {
    ncclCommDestroy(comm);
  } else {
    ncclCommAbort(comm);
  }
  for (const cudaStream_t stream : {kernels_, out_, local_}) cudaStreamSynchronize(stream);
}

void end_session(std::unique_ptr<NcclSession> session, bool healthy) {
  if (!session) return;
  Endings& all = endings();
  struct State {
    std::unique_ptr<NcclSession> session;
    bool ended = false;  // guarded by the mutex of Endings
  };
  const auto state = std::make_shared<State>(State{std::move(session)});
  {
    const MutexLock lock(all.mutex);
    ++all.running;
  }
  const auto end = [state, healthy, &all] {
    state->session->end(healthy, kFinalizeLimit);
    state->session.reset();
    const MutexLock lock(all.mutex);
    state->ended = true;
    --all.running;
    all.changed.notify_all();
  };
  try {
    std::thread(end).detach();
  } catch (const std::system_error&) {  // no thread can be started
    end();
  }
  const MutexLock lock(all.mutex);
  all.changed.wait_for(all.mutex, kEndLimit, [&] { return state->ended; });
}

bool sessions_have_ended(const Deadline& deadline, const std::stop_token& stop) {
  Endings& all = endings();
  const MutexLock lock(all.mutex);
  const bool ended = all.changed.wait_for(all.mutex, stop, deadline.left(),
                                          [&all]() TROUPE_REQUIRES(all.mutex) { return all.running == 0; });
  if (!ended && stop.stop_requested()) throw TransferError(Kind::stopped, {}, "the group was stopped");
  return ended;
}

}  // namespace troupe
