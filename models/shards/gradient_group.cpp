// All ranks take the pieces of a round in the same order, from the last one to the first, in which backward passes
// complete them. So they start the same exchanges in the same order, whatever the order in which each has said them.
// Several exchanges are under way at a time: while the parts of one piece are added up, those of the next ones arrive.

#include "models/shards/gradient_group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <span>
#include <string>

#include "models/shards/parameter_slices.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

using Direction = PeerBuffer::Direction;
using Kind = TransferError::Kind;

// What a rank sends to the owner of a part: a header, and the values of each branch.
constexpr size_t kHeaderBytes = 64;
using Header = std::array<uint64_t, 3>;

Header header_of(const GradientPiece& piece) { return {piece.update, piece.at.round, piece.at.piece}; }

std::string text_of(const Header& header) {
  return "piece " + std::to_string(header[2]) + " of round " + std::to_string(header[1]) + " of update " +
         std::to_string(header[0]);
}

Array bytes_for(size_t branches, const ElementRange& part) {
  return Array::uninitialized(DType::u8, {static_cast<int64_t>(kHeaderBytes + branches * part.size() * sizeof(float))});
}

// [part] float32 of [piece].
Array part_of(const Array& values, const ElementRange& piece, const ElementRange& part) {
  return values.slice(static_cast<int64_t>(part.begin - piece.begin), static_cast<int64_t>(part.end - piece.begin));
}

Buffer buffer_of(Array& array) { return {array.mutable_data(), array.bytes()}; }

}  // namespace

ElementRange GradientDivision::part(size_t piece, size_t rank) const {
  const ElementRange all{piece * each, std::min((piece + 1) * each, elements)};
  if (slices) {
    const ElementRange own = all.common(ParameterSlices(elements, shards.size()).slice(rank));
    return own.size() == 0 ? ElementRange{all.begin, all.begin} : own;
  }
  return {all.begin + all.size() * rank / shards.size(), all.begin + all.size() * (rank + 1) / shards.size()};
}

// The exchanges under way, of one round. First of each piece the branches go to the ranks that add them up, and then
// the sums to all. Each is waited for in the order in which it was started.
class GradientGroup::Exchange {
 public:
  Exchange(const GradientGroup& owner, ProcessGroup& group) : owner_(owner), group_(group) {}

  void begin(const GradientPiece& piece, const std::vector<GradientBranch>& branches) {
    reduced_.push_back(reduce(piece, branches));
    if (reduced_.size() >= at_once()) end_first();
  }
  void end() {
    while (!reduced_.empty()) end_first();
    while (!spread_.empty()) deliver_first();
  }

 private:
  // The transfers end before the memory.
  struct Reduction {
    GradientPiece piece;
    std::vector<GradientBranch> mine;   // [part] of this rank's own branches
    std::vector<Array> sent, received;  // by rank; empty where there is nothing
    std::unique_ptr<Transfer> transfer;
  };
  struct Spread {
    GradientPiece piece;
    Array gradients;
    std::unique_ptr<Transfer> transfer;  // none: nothing is to be waited for
  };

  size_t ranks() const { return owner_.division_.shards.size(); }
  size_t rank() const { return static_cast<size_t>(owner_.rendezvous_.rank); }
  // Of a piece, slices belong to one or two ranks: then the pieces of several ranks go on beside each other.
  size_t at_once() const { return owner_.division_.slices ? std::clamp<size_t>(ranks(), 2, 8) : 2; }
  ElementRange part(const GradientPiece& piece, size_t rank) const {
    return owner_.division_.part(piece.at.piece, rank);
  }

  Reduction reduce(const GradientPiece& piece, const std::vector<GradientBranch>& branches) const {
    const ElementRange all = owner_.pieces_.range(piece.at.piece), own = part(piece, rank());
    Reduction result{piece, {}, std::vector<Array>(ranks()), std::vector<Array>(ranks()), nullptr};
    std::vector<PeerBuffer> parts;
    for (size_t other = 0; other < ranks(); ++other) {
      if (other == rank()) continue;
      const auto peer = static_cast<int>(other);
      if (const ElementRange theirs = part(piece, other); theirs.size() > 0) {
        result.sent[other] = packed(piece, branches, all, theirs);
        parts.push_back({Direction::send, peer, buffer_of(result.sent[other])});
      }
      if (own.size() == 0) continue;
      result.received[other] = bytes_for(branches_of(other).size(), own);
      parts.push_back({Direction::receive, peer, buffer_of(result.received[other])});
    }
    for (const GradientBranch& branch : branches)
      result.mine.push_back({branch.shards, part_of(branch.values, all, own)});
    result.transfer = group_.start_exchange(parts);
    return result;
  }

  static Array packed(const GradientPiece& piece, const std::vector<GradientBranch>& branches, const ElementRange& all,
                      const ElementRange& part) {
    Array result = bytes_for(branches.size(), part);
    std::byte* to = result.mutable_data();
    const Header header = header_of(piece);
    std::memset(to, 0, kHeaderBytes);
    std::memcpy(to, header.data(), sizeof header);
    to += kHeaderBytes;
    for (const GradientBranch& branch : branches) {
      const Array values = part_of(branch.values, all, part);
      std::memcpy(to, values.data(), values.bytes());
      to += values.bytes();
    }
    return result;
  }

  std::vector<GradientBranch> unpacked(const GradientPiece& piece, size_t from, const Array& bytes,
                                       const ElementRange& part) const {
    Header header;
    std::memcpy(header.data(), bytes.data(), sizeof header);
    if (header != header_of(piece))
      throw missing_ranks(Kind::protocol, {static_cast<int>(from)},
                          "sent " + text_of(header) + " where " + text_of(header_of(piece)) + " was due");
    std::vector<GradientBranch> result;
    auto at = static_cast<int64_t>(kHeaderBytes);
    const auto count = static_cast<int64_t>(part.size()), size = count * static_cast<int64_t>(sizeof(float));
    for (const ShardRange& shards : branches_of(from)) {
      result.push_back({shards, bytes.slice(at, at + size).reinterpreted(DType::f32, {count})});
      at += size;
    }
    return result;
  }

  std::vector<ShardRange> branches_of(size_t rank) const {
    return troupe::branches_of(owner_.division_.shards[rank], owner_.division_.shards.back().end());
  }

  // Adds up this rank's part, and sends it on.
  void end_first() {
    Reduction first = std::move(reduced_.front());
    reduced_.pop_front();
    first.transfer->wait(owner_.timeouts_.transfer);
    const ElementRange own = part(first.piece, rank());
    Array sum;
    if (own.size() > 0) {
      RankRound round(owner_.division_.shards.back().end());
      for (size_t from = 0; from < ranks(); ++from)
        round.add({owner_.division_.shards[from],
                   {},
                   from == rank() ? std::move(first.mine) : unpacked(first.piece, from, first.received[from], own)});
      sum = round.result().gradients;
    }
    spread_.push_back(owner_.division_.slices ? Spread{first.piece, std::move(sum), nullptr}
                                              : spread(first.piece, sum));
    if (owner_.division_.slices || spread_.size() >= at_once()) deliver_first();
  }

  Spread spread(const GradientPiece& piece, const Array& sum) const {
    const ElementRange all = owner_.pieces_.range(piece.at.piece);
    Array gradients = Array::uninitialized(DType::f32, {static_cast<int64_t>(all.size())});
    const auto place = [&](size_t rank) {
      const ElementRange theirs = part(piece, rank);
      return Buffer{gradients.mutable_view<float>().data() + (theirs.begin - all.begin), theirs.size() * sizeof(float)};
    };
    const Buffer own = place(rank());
    if (own.bytes > 0) std::memcpy(own.data, sum.data(), own.bytes);
    std::vector<PeerBuffer> parts;
    for (size_t other = 0; other < ranks(); ++other) {
      if (other == rank()) continue;
      const auto peer = static_cast<int>(other);
      if (own.bytes > 0) parts.push_back({Direction::send, peer, own});
      if (const Buffer theirs = place(other); theirs.bytes > 0) parts.push_back({Direction::receive, peer, theirs});
    }
    std::unique_ptr<Transfer> transfer = group_.start_exchange(parts);
    return {piece, std::move(gradients), std::move(transfer)};
  }

  void deliver_first() {
    Spread first = std::move(spread_.front());
    spread_.pop_front();
    if (first.transfer) first.transfer->wait(owner_.timeouts_.transfer);
    first.transfer.reset();
    RoundResult result;
    result.gradients = std::move(first.gradients);
    owner_.deliver_(first.piece, std::move(result));
  }

  const GradientGroup& owner_;
  ProcessGroup& group_;
  std::deque<Reduction> reduced_;
  std::deque<Spread> spread_;
};

GradientGroup::GradientGroup(std::shared_ptr<GroupBackend> backend, const Rendezvous& rendezvous,
                             GradientDivision division, Timeouts timeouts, Deliver deliver, Fail fail)
    : backend_(std::move(backend)),
      rendezvous_(rendezvous),
      division_(std::move(division)),
      pieces_(division_.elements, division_.each),
      branches_(branches_of(division_.shards.at(static_cast<size_t>(rendezvous.rank)), division_.shards.back().end())),
      timeouts_(timeouts),
      deliver_(std::move(deliver)),
      fail_(std::move(fail)) {
  TROUPE_CHECK(division_.shards.size() == static_cast<size_t>(rendezvous.size), division_.shards.size(),
               rendezvous.size);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

GradientGroup::~GradientGroup() = default;

void GradientGroup::say(const GradientPiece& piece, std::vector<GradientBranch> branches) {
  TROUPE_CHECK(piece.at.piece < pieces_.count(), piece.at.piece, pieces_.count());
  const size_t elements = pieces_.range(piece.at.piece).size();
  TROUPE_CHECK(std::ranges::equal(branches, branches_, {}, &GradientBranch::shards), branches.size());
  for (const GradientBranch& branch : branches)
    TROUPE_CHECK(branch.values.view<float>().size() == elements, branch.values.size(), elements);
  const MutexLock lock(mutex_);
  if (failed_) return;
  Round& round = rounds_[{piece.update, piece.at.round}];
  round.said.resize(pieces_.count());
  TROUPE_CHECK(round.said[piece.at.piece].empty(), piece.update, piece.at.round, piece.at.piece);
  round.said[piece.at.piece] = std::move(branches);
  changed_.notify_all();
}

GradientGroup::RoundKey GradientGroup::next_round(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  if (!changed_.wait(mutex_, stop, [this]() TROUPE_REQUIRES(mutex_) { return !rounds_.empty(); }))
    throw TransferError(Kind::stopped, {}, "the group was stopped");
  return rounds_.begin()->first;
}

std::vector<GradientBranch> GradientGroup::take(const RoundKey& round, size_t piece, const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  std::vector<GradientBranch>& said = rounds_.at(round).said[piece];
  if (!changed_.wait(mutex_, stop, [&] { return !said.empty(); }))
    throw TransferError(Kind::stopped, {}, "the group was stopped");
  std::vector<GradientBranch> result = std::move(said);
  // The last one of the round: no rank says more of it, and its results may begin the next.
  if (piece == 0) rounds_.erase(round);
  return result;
}

void GradientGroup::run(const std::stop_token& stop) {
  try {
    const std::unique_ptr<ProcessGroup> group = backend_->join(rendezvous_, timeouts_.connect, stop);
    for (;;) {
      const RoundKey round = next_round(stop);
      Exchange exchange(*this, *group);
      for (size_t piece = pieces_.count(); piece-- > 0;)
        exchange.begin({round.first, {round.second, piece}}, take(round, piece, stop));
      exchange.end();
    }
  } catch (const TransferError& error) {
    fail(error, stop);
  } catch (const std::exception& error) {
    fail({Kind::protocol, {}, error.what()}, stop);
  }
}

void GradientGroup::fail(const TransferError& error, const std::stop_token& stop) {
  if (stop.stop_requested()) return;
  {
    const MutexLock lock(mutex_);
    failed_ = true;
    rounds_.clear();
  }
  fail_(error);
}

}  // namespace troupe
