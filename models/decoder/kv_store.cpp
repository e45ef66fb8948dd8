#include "models/decoder/kv_store.h"

#include <algorithm>

namespace troupe {

KvLayer::KvLayer(const LmShape& shape, int64_t cells)
    : cells_(padded(cells)),
      kv_heads_(shape.kv_heads),
      head_dim_(shape.head_dim),
      keys_(kv_heads_ * cells_ * head_dim_),
      values_(kv_heads_ * cells_ * padded(head_dim_)) {
  std::ranges::fill(keys_.span(), 0.0f);
  std::ranges::fill(values_.span(), 0.0f);
}

void KvLayer::write(int64_t cell, const float* key, const float* value) {
  for (int64_t head = 0; head < kv_heads_; ++head) {
    float* keys = keys_.data() + head * cells_ * head_dim_ + cell / kPanel * head_dim_ * kPanel + cell % kPanel;
    float* values = values_.data() + head * cells_ * padded(head_dim_) + cell * kPanel;
    for (int64_t d = 0; d < head_dim_; ++d) {
      keys[d * kPanel] = key[head * head_dim_ + d];
      values[d / kPanel * cells_ * kPanel + d % kPanel] = value[head * head_dim_ + d];
    }
  }
}

}  // namespace troupe
