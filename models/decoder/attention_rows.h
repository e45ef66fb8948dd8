#pragma once
// AttentionRows: queries that are computed together, those of some consecutive tokens of a sequence that share a key
// head, and their scores. Used by one thread. Internal to models/decoder/attention*.cpp.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "models/decoder/batch.h"
#include "models/decoder/kv_store.h"
#include "models/decoder/matrix_product.h"

namespace troupe {

// Some tokens of a sequence.
struct TokenBlock {
  const LmSequence* sequence;
  int64_t first_token;  // in the batch
  int64_t first;        // in the sequence
  int64_t count;

  // Cells that the first and the last token attend to.
  int64_t fewest_keys() const { return sequence->keys_of(first); }
  int64_t most_keys() const { return sequence->keys_of(first + count - 1); }
};

// Blocks of at most `rows` queries per key head, at least one token.
inline std::vector<TokenBlock> token_blocks(std::span<const LmSequence> sequences, int64_t group, int64_t rows) {
  std::vector<TokenBlock> result;
  const int64_t most = std::max<int64_t>(1, rows / group);
  int64_t token = 0;
  for (const LmSequence& sequence : sequences) {
    for (int64_t first = 0; first < sequence.tokens; first += most)
      result.push_back({&sequence, token + first, first, std::min(most, sequence.tokens - first)});
    token += sequence.tokens;
  }
  return result;
}

// A range of cells that a block attends to. Key `order` of a query is the cell `begin`.
struct KeyRange {
  int64_t begin, end;
  int64_t order;
};
struct KeyRanges {
  KeyRange items[2];
  int count = 0;
  const KeyRange* begin() const { return items; }
  const KeyRange* end() const { return items + count; }
};
inline KeyRanges ranges_of(const TokenBlock& block) {
  const LmSequence& s = *block.sequence;
  KeyRanges result;
  if (s.prefix_size() > 0) result.items[result.count++] = {s.prefix_begin, s.prefix_end, 0};
  result.items[result.count++] = {s.own_begin, s.own_begin + block.most_keys() - s.prefix_size(), s.prefix_size()};
  return result;
}

class AttentionRows {
 public:
  AttentionRows(const LmShape& shape, const TokenBlock& block, int64_t kv_head)
      : shape_(shape), block_(block), kv_head_(kv_head), stride_(padded(block.most_keys()) + kPanel) {}

  int64_t rows() const { return block_.count * shape_.group(); }
  int64_t stride() const { return stride_; }  // floats from the scores of one row to those of the next
  // Row r is a token's query head.
  int64_t token(int64_t r) const { return block_.first_token + r / shape_.group(); }
  int64_t head(int64_t r) const { return kv_head_ * shape_.group() + r % shape_.group(); }
  int64_t keys(int64_t r) const { return block_.sequence->keys_of(block_.first + r / shape_.group()); }
  float factor() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

  // The rows of an array [P, heads * head_dim] as [rows, head_dim].
  void gather(const float* from, int64_t from_stride, float* to) const {
    for (int64_t r = 0; r < rows(); ++r)
      std::copy_n(from + token(r) * from_stride + head(r) * shape_.head_dim, shape_.head_dim, to + r * shape_.head_dim);
  }

  // products[r, from..] = left[r] . cell for the cells of a range and those around it in the same panels; returns the
  // place `from` of the first cell of the range. cells: [cells / kPanel, head_dim, kPanel]; products: [rows, stride()].
  int64_t multiply(const LmKernels& kernels, const float* left, const float* cells, const KeyRange& range,
                   float* products) const {
    const int64_t first = range.begin / kPanel;
    kernels.product({.a = left,
                     .a_row_stride = shape_.head_dim,
                     .panels = cells + first * shape_.head_dim * kPanel,
                     .panel_stride = shape_.head_dim * kPanel,
                     .m = rows(),
                     .n = padded(range.end - first * kPanel),
                     .k = shape_.head_dim,
                     .c = products,
                     .c_stride = stride_},
                    product_scratch());
    return range.begin - first * kPanel;
  }

  // scores[r, i] = factor() queries[r] . key i, for the keys in their order. queries: [rows, head_dim]; scores and
  // products: [rows, stride()].
  void score(const LmKernels& kernels, const float* queries, const KvLayer& cells, float* products,
             float* scores) const {
    for (const KeyRange& range : ranges_of(block_)) {
      const int64_t from = multiply(kernels, queries, cells.keys(kv_head_), range, products);
      for (int64_t r = 0; r < rows(); ++r)
        kernels.scale(products + r * stride_ + from, factor(), range.end - range.begin,
                      scores + r * stride_ + range.order);
    }
  }

  // sums[r] = sum over the first `count` keys i of weights[r, i] right[cell of i], one chain. right:
  // [panels_of(head_dim), all cells, kPanel]; sums: [rows, padded(head_dim)].
  void weighted_sums(const LmKernels& kernels, const float* weights, int64_t count, const float* right, int64_t cells,
                     float* sums) const {
    for (const KeyRange& range : ranges_of(block_)) {
      const int64_t keys = std::min(count - range.order, range.end - range.begin);
      if (keys <= 0) continue;
      kernels.product({.a = weights + range.order,
                       .a_row_stride = stride_,
                       .panels = right + range.begin * kPanel,
                       .panel_stride = cells * kPanel,
                       .m = rows(),
                       .n = padded(shape_.head_dim),
                       .k = keys,
                       .c = sums,
                       .c_stride = padded(shape_.head_dim),
                       .continued = range.order > 0},
                      product_scratch());
    }
  }

 private:
  const LmShape& shape_;
  const TokenBlock& block_;
  int64_t kv_head_;
  int64_t stride_;
};

}  // namespace troupe
