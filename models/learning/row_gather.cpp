#include "models/learning/row_gather.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algorithms/losses/device/upload.h"

namespace troupe {

at::Tensor row_index(std::span<const int64_t> rows, at::Device device) {
  if (!device.is_cpu()) return upload(rows, device);
  auto* data = const_cast<int64_t*>(rows.data());  // from_blob takes no const; nobody writes
  return at::from_blob(data, {static_cast<int64_t>(rows.size())}, at::TensorOptions().dtype(at::kLong));
}

const std::vector<at::Tensor>& RowGather::gather(const std::vector<at::Tensor>& inputs, std::span<const int64_t> rows) {
  return gather(inputs, row_index(rows, device_));
}

const std::vector<at::Tensor>& RowGather::gather(const std::vector<at::Tensor>& inputs, const at::Tensor& index) {
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
