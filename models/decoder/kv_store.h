#pragma once
// Keys and values of past tokens: KvLayer for one layer, KvStore for all. Memory is a row of cells, one per token; who
// computes with a decoder decides which token has which cell. Any number of threads may read; cells are written by the
// decoder's threads, each by one.

#include <cstdint>
#include <vector>

#include "models/decoder/buffer.h"
#include "models/decoder/kernels/kernel_table.h"
#include "models/decoder/lm_shape.h"

namespace troupe {

class KvLayer {
 public:
  // All cells are zero.
  KvLayer(const LmShape& shape, int64_t cells);

  int64_t cells() const { return cells_; }
  // The keys of a head, kPanel cells side by side: [cells / kPanel, head_dim, kPanel].
  const float* keys(int64_t kv_head) const { return keys_.data() + kv_head * cells_ * head_dim_; }
  // The values of a head, kPanel dimensions side by side: [panels_of(head_dim), cells, kPanel].
  const float* values(int64_t kv_head) const { return values_.data() + kv_head * cells_ * padded(head_dim_); }

  // Stores a token. key, value: [kv_heads * head_dim].
  void write(int64_t cell, const float* key, const float* value);

 private:
  int64_t cells_;  // a multiple of kPanel
  int64_t kv_heads_, head_dim_;
  FloatBuffer keys_, values_;
};

struct KvStore {
  KvStore(const LmShape& shape, int64_t cells) {
    for (int64_t i = 0; i < shape.layers; ++i) layers.emplace_back(shape, cells);
  }

  std::vector<KvLayer> layers;
};

}  // namespace troupe
