#include "models/torch/learning/sample_gather.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algorithms/losses/torch/upload.h"

namespace troupe {

at::Tensor index_tensor(std::span<const int64_t> indices, at::Device device) {
  if (!device.is_cpu()) return upload(indices, device);
  auto* data = const_cast<int64_t*>(indices.data());  // from_blob takes no const; nobody writes
  return at::from_blob(data, {static_cast<int64_t>(indices.size())}, at::TensorOptions().dtype(at::kLong));
}

const std::vector<at::Tensor>& SampleGather::gather(const std::vector<at::Tensor>& inputs,
                                                    std::span<const int64_t> samples) {
  return gather(inputs, index_tensor(samples, device_));
}

const std::vector<at::Tensor>& SampleGather::gather(const std::vector<at::Tensor>& inputs, const at::Tensor& index) {
  const at::NoGradGuard guard;  // not inference mode, whose tensors autograd could not keep
  const int64_t count = index.size(0);
  gathered_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<int64_t> shape = inputs[i].sizes().vec();
    shape.front() = count;
    if (!gathered_[i].defined())
      gathered_[i] = at::empty(shape, inputs[i].options());
    else
      gathered_[i].resize_(shape);
    at::index_select_out(gathered_[i], inputs[i], 0, index);
  }
  return gathered_;
}

}  // namespace troupe
