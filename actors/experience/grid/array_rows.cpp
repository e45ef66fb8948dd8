#include "actors/experience/grid/array_rows.h"

#include <cstring>

namespace troupe {

Arrays gather_rows(const Arrays& source, const std::vector<int64_t>& rows, int64_t extra) {
  Arrays result;
  for (const auto& [name, array] : source) {
    const auto count = static_cast<int64_t>(rows.size());
    Array out = Array::uninitialized(array.dtype(), array.shape().without_first().prepended(count + extra));
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(out.mutable_data() + static_cast<size_t>(i) * out.row_bytes(),
                  array.data() + static_cast<size_t>(rows[static_cast<size_t>(i)]) * array.row_bytes(),
                  array.row_bytes());
    result.set(name, out);
  }
  return result;
}

void put_rows(Arrays& target, int64_t at, const Arrays& source) {
  for (auto& [name, array] : target) {
    const Array& from = source.at(name);
    std::memcpy(array.mutable_data() + static_cast<size_t>(at) * array.row_bytes(), from.data(), from.bytes());
  }
}

}  // namespace troupe
