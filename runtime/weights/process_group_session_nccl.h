#pragma once
// NcclSession: a communicator of NCCL and all memory that its kernels may touch. A kernel of NCCL that waits for a
// peer can only be ended by an abort of its communicator, and an abort can hang. So kernels never get memory of a
// caller, only staging memory of the session, and the session frees it after its communicator has ended. Used from one
// thread at a time. Only for runtime/weights/process_group_*.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/weights/process_group.h"

// As in nccl.h and cuda_runtime.h, which this header does not need.
struct ncclComm;
struct CUstream_st;
struct CUevent_st;

namespace troupe {

class NcclSession {
 public:
  static constexpr size_t kPieceBytes = size_t{4} << 20;  // the largest piece of one broadcast
  static constexpr size_t kSlots = 8;                     // pieces in flight

  // Staging memory of one piece.
  struct Slot {
    std::byte* device = nullptr;
    std::byte* host = nullptr;  // pinned: a copy from or to other host memory could block without a limit
    CUevent_st* ready = nullptr;
    CUevent_st* done = nullptr;
    bool used = false;
  };
  enum class Use : uint8_t { send_from_host, send_from_device, receive_on_host, receive_on_device };
  // What a slot has of the memory of a caller.
  struct Part {
    Use use = Use::send_from_host;
    int peer = 0;  // the other rank; in a broadcast, the root
    std::byte* memory = nullptr;
    size_t bytes = 0;
    size_t offset = 0;  // in the slot

    bool sends() const { return use == Use::send_from_host || use == Use::send_from_device; }
  };

  // The id with which the members of a communicator find each other. Throws TransferError.
  static std::string new_id();
  // Begins to connect; idle() says when this has ended. Throws TransferError when the id is not one.
  NcclSession(int device, int rank, int size, const std::string& id);
  // Requires that end() has returned.
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  // Makes the device the current one of this thread. Every function below except end() requires it.
  void use_device() const;
  // True when NCCL has no call of this communicator in progress. Throws TransferError when it has failed.
  bool idle() const;
  // A slot that is not in use; nullptr when all are. The first call allocates them.
  Slot* take_slot();
  void give_back(Slot& slot) { slot.used = false; }

  // Both require idle(). What is sent from host memory must be in slot.host already. NCCL may still be busy afterwards:
  // call finish_launch() with the same parts once idle() is true again.
  void broadcast(Slot& slot, const Part& part);
  // All parts go on together.
  void exchange(Slot& slot, std::span<const Part> parts);
  void finish_launch(Slot& slot, std::span<const Part> parts);
  // Whether what was launched last with the slot has ended: what was sent can be used again, and slot.host (of
  // receive_on_host) or slot.device (of receive_on_device) has the bytes.
  bool has_ended(const Slot& slot) const;
  // Starts to copy the parts that are received on the device to their memory; has_ended() says when that is done.
  void copy_out(Slot& slot, std::span<const Part> parts);
  // Returns when no copy from or to device memory of the caller is under way. These wait for no peer.
  void finish_copies() const;

  // Ends the communicator and may hang: by ncclCommFinalize if it is healthy and that takes at most `limit`, else by
  // an abort.
  void end(bool healthy, std::chrono::milliseconds limit);

 private:
  void allocate();
  void release();
  // What is sent goes to slot.device before the kernels that come next.
  void copy_in(Slot& slot, std::span<const Part> parts);

  const int device_;
  ncclComm* comm_ = nullptr;
  CUstream_st* kernels_ = nullptr;  // NCCL's
  CUstream_st* out_ = nullptr;      // copies of received pieces to pinned memory: they wait for kernels
  CUstream_st* local_ = nullptr;    // all other copies: they wait for nothing
  std::array<Slot, kSlots> slots_{};
  bool allocated_ = false;
};

// Ends the session on a thread of its own and returns when this is done, at the latest after kEndLimit. A session whose
// end hangs keeps its memory, and that thread frees it if the end ever comes. Ends of several sessions go on side by
// side, so that none waits for another to be freed.
inline constexpr std::chrono::milliseconds kEndLimit{2000};
void end_session(std::unique_ptr<NcclSession> session, bool healthy);
// False if a session of this process has still not ended at the deadline. Throws TransferError when stopped.
bool sessions_have_ended(const Deadline& deadline, const std::stop_token& stop);

}  // namespace troupe
