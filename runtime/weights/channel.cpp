#include "runtime/weights/channel.h"

#include <bit>
#include <cstddef>
#include <deque>
#include <utility>

#include "runtime/base/blocked.h"

namespace troupe {

namespace {

static_assert(std::endian::native == std::endian::little, "the weight plane sends headers as they lie in memory");

// Buckets in flight: enough to keep the connection busy while one is checked. More would only pin memory in the
// backends.
constexpr size_t kInFlight = 16;

uint64_t checksum_of_header(const TransferHeader& header) {
  return checksum_of(&header, offsetof(TransferHeader, header_checksum));
}

uint64_t buckets_for(uint64_t bytes, uint64_t bucket_bytes) {
  return bytes / bucket_bytes + (bytes % bucket_bytes != 0);
}

}  // namespace

WeightSlot::Offer WeightSlot::offer(WeightsPtr weights) {
  TROUPE_CHECK(weights != nullptr);
  const MutexLock lock(mutex_);
  if (weights_ && weights->version == weights_->version) return Offer::same;
  if (weights_ && weights->version < weights_->version) return Offer::older;
  weights_.swap(weights);  // the parameter now owns the old snapshot and frees it after the lock is released
  return Offer::applied;
}

WeightsPtr WeightSlot::get() const {
  const MutexLock lock(mutex_);
  return weights_;
}

TransferHeader make_header(const WeightSnapshot& weights, size_t bucket_bytes) {
  TransferHeader header;
  header.epoch = weights.version.epoch;
  header.number = weights.version.number;
  header.signature_hash = weights.signature->hash();
  header.bytes = weights.flat.bytes();
  header.bucket_bytes = bucket_bytes;
  header.bucket_count = buckets_for(header.bytes, bucket_bytes);
  header.header_checksum = checksum_of_header(header);
  return header;
}

std::optional<std::string> fault_in(const TransferHeader& header, const Signature& signature) {
  if (header.magic != TransferHeader::kMagic) return "the peer speaks another version of the weight protocol";
  if (header.header_checksum != checksum_of_header(header)) return "the header was damaged on the way";
  if (header.signature_hash != signature.hash()) return "the weights announced have another signature than this policy";
  if (header.bytes != signature.total_bytes())
    return std::to_string(header.bytes) + " bytes announced, but this policy has " +
           std::to_string(signature.total_bytes());
  if (header.bucket_bytes == 0) return "buckets of 0 bytes announced";
  if (header.bucket_count != buckets_for(header.bytes, header.bucket_bytes))
    return std::to_string(header.bucket_count) + " buckets announced, " +
           std::to_string(buckets_for(header.bytes, header.bucket_bytes)) + " expected";
  return std::nullopt;
}

uint64_t move_buckets(ProcessGroup& group, std::byte* block, size_t bytes, size_t bucket_bytes,
                      const Deadline& deadline) {
  Checksum checksum;
  std::deque<std::unique_ptr<Transfer>> in_flight;
  size_t started = 0, done = 0;
  while (done < bytes) {
    while (started < bytes && in_flight.size() < kInFlight) {
      const size_t size = std::min(bucket_bytes, bytes - started);
      in_flight.push_back(group.start_broadcast({block + started, size}, 0));
      started += size;
    }
    {
      const Blocked blocked;
      in_flight.front()->wait(deadline.left());
    }
    in_flight.pop_front();
    const size_t size = std::min(bucket_bytes, bytes - done);
    checksum.update(block + done, size);
    done += size;
  }
  return checksum.value();
}

}  // namespace troupe
