#include "models/torch/paged_tensor.h"

#include <ATen/ATen.h>

#include "runtime/base/errors.h"

namespace troupe {

PagedTensor::PagedTensor(int64_t elements, at::Device device, bool paged) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  if (!paged) {
    values_ = at::zeros({elements}, options);
    return;
  }
  TROUPE_CHECK(device.is_cpu(), elements);
  pages_.emplace(static_cast<size_t>(elements) * sizeof(float));
  values_ = at::from_blob(pages_->floats().data(), {elements}, options);
}

void PagedTensor::clear() {
  if (pages_)
    pages_->clear(0, pages_->bytes());
  else
    values_.zero_();
}

void PagedTensor::free(ElementRange elements) {
  pages_.value().clear(elements.begin * sizeof(float), elements.end * sizeof(float));
}

}  // namespace troupe
