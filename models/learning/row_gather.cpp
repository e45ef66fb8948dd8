#include "models/learning/row_gather.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace troupe {

const std::vector<at::Tensor>& RowGather::gather(const std::vector<at::Tensor>& inputs, std::span<const int64_t> rows) {
  const at::NoGradGuard guard;  // not inference mode, whose tensors autograd could not keep
  const auto count = static_cast<int64_t>(rows.size());
  at::Tensor index = at::from_blob(const_cast<int64_t*>(rows.data()), {count}, at::TensorOptions().dtype(at::kLong));
  index = index.to(device_);
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
