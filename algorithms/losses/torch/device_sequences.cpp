#include "algorithms/losses/torch/device_sequences.h"

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "algorithms/losses/torch/upload.h"
#include "runtime/base/errors.h"

namespace troupe {

DeviceSequences::DeviceSequences(std::span<const int64_t> offsets, at::Device device)
    : count_(static_cast<int64_t>(offsets.size()) - 1), tokens_(offsets.back()) {
  TROUPE_CHECK(count_ >= 1 && offsets.front() == 0, count_, offsets.front());
  if (count_ == 1) return;
  std::vector<int64_t> lengths(static_cast<size_t>(count_));
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = offsets[i + 1] - offsets[i];
  lengths_ = upload(std::span<const int64_t>(lengths), device);
  sequences_ = at::repeat_interleave(lengths_, /*output_size=*/std::optional<int64_t>(tokens_));
}

at::Tensor DeviceSequences::sum(const at::Tensor& x) const {
  if (count_ == 1) return x.sum(0, /*keepdim=*/true);
  // `unsafe` skips the check of the lengths, which would wait for the device.
  return at::segment_reduce(x, "sum", lengths_, {}, {}, 0, /*unsafe=*/true, /*initial=*/0);
}

at::Tensor DeviceSequences::spread(const at::Tensor& x) const {
  return count_ == 1 ? x.expand({tokens_}) : x.index_select(0, sequences_);
}

}  // namespace troupe
