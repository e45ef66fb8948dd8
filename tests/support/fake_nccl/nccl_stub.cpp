#include "tests/support/fake_nccl/nccl.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/fake_nccl/fake_gpu.h"

namespace fake_gpu {

namespace {

// One broadcast as the kernels of its ranks see it.
struct Broadcast {
  const void* from = nullptr;  // set while the root's kernel runs
  size_t bytes = 0;
  int copied = 0;
};

// A send or a receive.
struct Move {
  bool sends = false;
  int peer = 0;
  void* memory = nullptr;
  size_t bytes = 0;
  uint64_t number = 0;  // of those of this pair of ranks in this direction
  bool done = false;
};

// Sender, receiver and number of a send.
using SendKey = std::tuple<int, int, uint64_t>;

// What the ranks of a communicator share.
struct World {
  int size = 0, joined = 0, finalized = 0;
  std::map<uint64_t, Broadcast> broadcasts;  // by number
  std::map<SendKey, Move*> sends;            // whose kernel runs
};

// One rank of a communicator. Kernels share it, so that the communicator may be freed before they end.
struct Member {
  std::shared_ptr<World> world;
  int rank = 0, device = 0;
  uint64_t next = 0;                                // number of the next broadcast
  std::map<int, uint64_t> next_send, next_receive;  // by peer
  int polls = 0;                                    // for which the present call stays in progress
  ncclResult_t error = ncclSuccess;
  std::function<void()> launch;  // the kernel whose call is in progress
  bool aborted = false, finalized = false;
};

// All state, under one mutex: what a kernel copies is small.
struct Network {
  std::mutex mutex;
  std::condition_variable changed;
  Faults faults;
  uint64_t next_id = 1, aborts = 0, finalized = 0, hanging_aborts = 0;
  std::map<std::string, std::weak_ptr<World>> worlds;
  std::vector<std::weak_ptr<Member>> members;
};

Network& network() {
  static Network it;
  return it;
}

uint64_t read(uint64_t Network::* number) {
  const std::lock_guard lock(network().mutex);
  return network().*number;
}

bool applies(const Faults& faults, int rank) { return faults.rank == -1 || faults.rank == rank; }

void send(Network& all, std::unique_lock<std::mutex>& lock, Member& me, uint64_t number, const void* from,
          size_t bytes) {
  Broadcast& broadcast = me.world->broadcasts[number];
  broadcast.from = from;
  broadcast.bytes = bytes;
  all.changed.notify_all();
  all.changed.wait(lock, [&] { return me.aborted || broadcast.copied == me.world->size - 1; });
  broadcast.from = nullptr;
}

void receive(Network& all, std::unique_lock<std::mutex>& lock, Member& me, uint64_t number, void* to, size_t bytes) {
  Broadcast& broadcast = me.world->broadcasts[number];
  all.changed.wait(lock, [&] { return me.aborted || broadcast.from; });
  if (!broadcast.from) return;
  if (broadcast.bytes != bytes) {
    me.error = ncclInvalidUsage;
    return;
  }
  std::memcpy(to, broadcast.from, bytes);
  ++broadcast.copied;
  all.changed.notify_all();
}

void run_kernel(const std::shared_ptr<Member>& me, uint64_t number, const void* from, void* to, size_t bytes,
                int root) {
  Network& all = network();
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [&] { return me->aborted || !all.faults.kernels_hang || !applies(all.faults, me->rank); });
  if (me->rank == root)
    send(all, lock, *me, number, from, bytes);
  else
    receive(all, lock, *me, number, to, bytes);
}

// Copies what can be received now.
void receive_moves(Network& all, Member& me, std::vector<Move>& moves) {
  for (Move& move : moves) {
    if (move.sends || move.done) continue;
    const auto sent = me.world->sends.find({move.peer, me.rank, move.number});
    if (sent == me.world->sends.end()) continue;
    if (sent->second->bytes != move.bytes)
      me.error = ncclInvalidUsage;
    else
      std::memcpy(move.memory, sent->second->memory, move.bytes);
    move.done = sent->second->done = true;
    all.changed.notify_all();
  }
}

void run_moves(const std::shared_ptr<Member>& me, std::vector<Move> moves) {
  Network& all = network();
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [&] { return me->aborted || !all.faults.kernels_hang || !applies(all.faults, me->rank); });
  for (Move& move : moves)
    if (move.sends) me->world->sends[{me->rank, move.peer, move.number}] = &move;
  all.changed.notify_all();
  all.changed.wait(lock, [&] {
    if (!me->aborted) receive_moves(all, *me, moves);
    return me->aborted || std::ranges::all_of(moves, &Move::done);
  });
  for (const Move& move : moves)
    if (move.sends) me->world->sends.erase({me->rank, move.peer, move.number});
}

bool may_launch(const Member& me) {
  const bool busy = me.polls != 0 || me.launch || me.world->joined < me.world->size;
  return !busy && !me.finalized && me.device == current_device();
}

// Now, or after some polls.
ncclResult_t launch(const Network& all, Member& me, std::function<void()> kernel) {
  me.polls = applies(all.faults, me.rank) ? all.faults.launch_polls : 0;
  if (me.polls > 0 || me.polls == kForEver) {
    me.launch = std::move(kernel);
    return ncclInProgress;
  }
  kernel();
  return ncclSuccess;
}

// The group of this thread.
struct Group {
  int depth = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Move> moves;
};
thread_local Group group;

// Notes it; outside of a group, launches it.
ncclResult_t add_move(const Move& move, ncclComm_t comm, cudaStream_t stream) {
  if (group.depth == 0) {
    ncclGroupStart();
    const ncclResult_t added = add_move(move, comm, stream);
    const ncclResult_t ended = ncclGroupEnd();
    return added == ncclSuccess ? ended : added;
  }
  group.comm = comm;
  group.stream = stream;
  group.moves.push_back(move);
  return ncclSuccess;
}

}  // namespace

void set_faults(const Faults& faults) {
  const std::lock_guard lock(network().mutex);
  network().faults = faults;
  network().changed.notify_all();
}

void release() { set_faults({}); }

void fail_communicators(ncclResult_t error) {
  const std::lock_guard lock(network().mutex);
  for (const auto& each : network().members)
    if (const auto member = each.lock()) member->error = error;
}

uint64_t aborts() { return read(&Network::aborts); }
uint64_t finalized() { return read(&Network::finalized); }
uint64_t hanging_aborts() { return read(&Network::hanging_aborts); }

}  // namespace fake_gpu

struct ncclComm {
  std::shared_ptr<fake_gpu::Member> member;
};

namespace fake_gpu {

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(network().mutex);
  *id = {};
  const std::string text = std::to_string(network().next_id++);
  text.copy(id->internal, sizeof id->internal);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  Network& all = network();
  const std::lock_guard lock(all.mutex);
  if (rank < 0 || rank >= size || config->blocking != 0) return ncclInvalidArgument;
  const bool faulty = applies(all.faults, rank);
  if (faulty && all.faults.init_result != ncclInProgress) return all.faults.init_result;
  auto& known = all.worlds[std::string(id.internal, sizeof id.internal)];
  std::shared_ptr<World> world = known.lock();
  if (!world) known = world = std::make_shared<World>(World{.size = size});
  ++world->joined;
  const auto member = std::make_shared<Member>();
  member->world = world;
  member->rank = rank;
  member->device = current_device();
  member->polls = faulty ? all.faults.init_polls : 0;
  std::erase_if(all.members, [](const auto& each) { return each.expired(); });
  all.members.push_back(member);
  *comm = new ncclComm{member};
  count(&Existing::communicators, 1);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  Network& all = network();
  const std::lock_guard lock(all.mutex);
  Member& me = *comm->member;
  *state = ncclInProgress;
  if (me.error != ncclSuccess) {
    *state = me.error;
  } else if (me.world->joined < me.world->size || me.polls == kForEver ||
             (me.finalized && me.world->finalized < me.world->size)) {
    // not yet
  } else if (me.polls > 0) {
    --me.polls;
  } else {
    if (me.launch) std::exchange(me.launch, nullptr)();
    *state = ncclSuccess;
  }
  return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  Network& all = network();
  const std::lock_guard lock(all.mutex);
  const std::shared_ptr<Member>& me = comm->member;
  if (!may_launch(*me)) return ncclInvalidUsage;
  return launch(all, *me,
                [=, number = me->next++] { enqueue(stream, [=] { run_kernel(me, number, from, to, count, root); }); });
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0) return ncclSuccess;
  Group ended = std::exchange(group, {});
  if (ended.moves.empty()) return ncclSuccess;
  Network& all = network();
  const std::lock_guard lock(all.mutex);
  const std::shared_ptr<Member>& me = ended.comm->member;
  if (!may_launch(*me)) return ncclInvalidUsage;
  for (Move& move : ended.moves) {
    if (move.peer < 0 || move.peer >= me->world->size) return ncclInvalidArgument;
    move.number = (move.sends ? me->next_send : me->next_receive)[move.peer]++;
  }
  return launch(all, *me, [me, stream = ended.stream, moves = std::move(ended.moves)] {
    enqueue(stream, [me, moves] { run_moves(me, moves); });
  });
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add_move({true, peer, const_cast<void*>(from), count}, comm, stream);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add_move({false, peer, to, count}, comm, stream);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  Network& all = network();
  const std::lock_guard lock(all.mutex);
  Member& me = *comm->member;
  if (me.finalized) return ncclInvalidUsage;
  me.finalized = true;
  ++me.world->finalized;
  me.polls = all.faults.finalize_hangs && applies(all.faults, me.rank) ? kForEver : 1;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  {
    const std::lock_guard lock(network().mutex);
    const Member& me = *comm->member;
    if (!me.finalized || me.polls != 0 || me.world->finalized < me.world->size) return ncclInvalidUsage;
    ++network().finalized;
  }
  delete comm;
  count(&Existing::communicators, -1);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Network& all = network();
  {
    std::unique_lock lock(all.mutex);
    ++all.aborts;
    ++all.hanging_aborts;
    all.changed.wait(lock, [&] { return !all.faults.abort_hangs || !applies(all.faults, comm->member->rank); });
    --all.hanging_aborts;
    comm->member->aborted = true;
    comm->member->launch = nullptr;
    all.changed.notify_all();
  }
  delete comm;
  count(&Existing::communicators, -1);
  return ncclSuccess;
}

}  // namespace fake_gpu
