#pragma once
// TokenSequences: which tokens of a flat array form a sequence: B sequences of T tokens each, or of different lengths
// given by offsets. A view; it owns no data.

#include <cstdint>
#include <span>

#include "runtime/base/errors.h"

namespace troupe {

class TokenSequences {
 public:
  // One sequence of n tokens.
  explicit TokenSequences(int64_t n = 0) : TokenSequences(1, n) {}
  // [count, length], sequence after sequence.
  TokenSequences(int64_t count, int64_t length) : count_(count), length_(length) {
    TROUPE_CHECK(count >= 0 && length >= 0, "sequences", count, "length", length);
  }
  // Sequence i is [offsets[i], offsets[i + 1]). offsets must begin with 0, never decrease, and outlive this object.
  explicit TokenSequences(std::span<const int64_t> offsets);

  int64_t count() const { return count_; }
  int64_t tokens() const { return offsets_.empty() ? count_ * length_ : offsets_.back(); }
  int64_t begin(int64_t sequence) const { return offsets_.empty() ? sequence * length_ : offsets_[sequence]; }
  int64_t end(int64_t sequence) const { return offsets_.empty() ? (sequence + 1) * length_ : offsets_[sequence + 1]; }
  // The offsets of ragged sequences; empty when all have the same length.
  std::span<const int64_t> offsets() const { return offsets_; }
  // The length of the longest sequence, to which all would be padded.
  int64_t longest() const;

 private:
  int64_t count_ = 0, length_ = 0;
  std::span<const int64_t> offsets_;
};

}  // namespace troupe
