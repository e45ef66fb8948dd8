#pragma once
// For both ends of the weight plane: the slot that holds a policy's weights, the options, and the wire format. A
// transfer is a transaction: header, buckets into a second buffer, seal, swap, acknowledgement. See sender.h and
// receiver.h for the two ends.

#include <chrono>
#include <optional>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/weights/process_group.h"
#include "runtime/weights/weights.h"

namespace troupe {

// Holds the newest weights that a receiver in another process has applied. Any thread may offer and get. Inference
// actors of the trainer's process get each snapshot in a message (actors/publisher.h), not from here.
class WeightSlot {
 public:
  enum class Offer : uint8_t {
    applied,  // get() now returns them
    same,     // the slot already has that version
    older,    // refused: a version never goes backwards
  };
  Offer offer(WeightsPtr weights);
  // nullptr before the first offer.
  WeightsPtr get() const;

 private:
  mutable Mutex mutex_;
  WeightsPtr weights_ TROUPE_GUARDED_BY(mutex_);
};

struct ChannelOptions {
  size_t bucket_bytes = size_t{4} << 20;
  std::chrono::milliseconds connect_timeout{10'000};   // for all members to join a group
  std::chrono::milliseconds transfer_timeout{30'000};  // from the header to the last acknowledgement
};

// Opens every transfer. Bytes as in memory of a little-endian host.
struct TransferHeader {
  uint32_t magic = kMagic;
  uint32_t epoch = 0;
  uint64_t number = 0;
  uint64_t signature_hash = 0;
  uint64_t bytes = 0;
  uint64_t reserved = 0;  // keeps the size of version 1, so that such a peer can read the magic and refuse
  uint64_t bucket_bytes = 0;
  uint64_t bucket_count = 0;
  uint64_t header_checksum = 0;  // of all fields above

  static constexpr uint32_t kMagic = 0x32575254;  // "TRW2": the digit is the protocol's version
};
static_assert(sizeof(TransferHeader) == 64);

// Ends every transfer. Both ends compute the checksum of a bucket while the next ones are in flight.
struct TransferSeal {
  uint64_t checksum = 0;  // of the whole block, see checksum_of
};

// The answer of every receiver.
enum class TransferStatus : uint32_t { applied = 1, same = 2, older = 3, corrupt = 4 };
struct TransferAnswer {
  TransferStatus status{};  // 0 is no answer
  uint32_t epoch = 0;       // of the version in the receiver's slot
  uint64_t number = 0;
};
static_assert(sizeof(TransferAnswer) == 16);

TransferHeader make_header(const WeightSnapshot& weights, size_t bucket_bytes);
// Returns what is wrong with a header that should announce weights of this signature, or nullopt.
std::optional<std::string> fault_in(const TransferHeader& header, const Signature& signature);

// Moves the block bucket by bucket from rank 0 to all, a few buckets at a time in flight, and returns its checksum as
// this rank has it. Throws TransferError.
uint64_t move_buckets(ProcessGroup& group, std::byte* block, size_t bytes, size_t bucket_bytes,
                      const Deadline& deadline);

}  // namespace troupe
