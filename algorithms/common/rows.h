#pragma once
// How a flat array of tokens makes sequences: B rows of T tokens, or rows of different lengths given by offsets. A view.

#include <cstdint>
#include <span>

#include "runtime/base/errors.h"

namespace troupe {

class Rows {
 public:
  // One row of n tokens.
  explicit Rows(int64_t n = 0) : Rows(1, n) {}
  // [count, length], row after row.
  Rows(int64_t count, int64_t length) : count_(count), length_(length) {
    TROUPE_CHECK(count >= 0 && length >= 0, "rows", count, "length", length);
  }
  // Row i is [offsets[i], offsets[i + 1]); offsets begin with 0, never fall, and outlive this.
  explicit Rows(std::span<const int64_t> offsets);

  int64_t count() const { return count_; }
  int64_t tokens() const { return offsets_.empty() ? count_ * length_ : offsets_.back(); }
  int64_t begin(int64_t row) const { return offsets_.empty() ? row * length_ : offsets_[row]; }
  int64_t end(int64_t row) const { return offsets_.empty() ? (row + 1) * length_ : offsets_[row + 1]; }
  // Of ragged rows; empty when all have one length.
  std::span<const int64_t> offsets() const { return offsets_; }
  // The length of the longest row: what they would be padded to.
  int64_t longest() const;

 private:
  int64_t count_ = 0, length_ = 0;
  std::span<const int64_t> offsets_;
};

}  // namespace troupe
