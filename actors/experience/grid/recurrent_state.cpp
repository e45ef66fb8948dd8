#include "actors/experience/grid/recurrent_state.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace troupe {

RecurrentState::RecurrentState(int64_t state_size, int64_t rows) {
  if (state_size == 0) return;
  state_ = Array(DType::f32, {rows, state_size});
  starts_ = Array(DType::u8, {rows});
  std::ranges::fill(starts_.mutable_view<uint8_t>(), uint8_t{1});
}

void RecurrentState::take(const Array& state) {
  TROUPE_CHECK(state.dtype() == state_.dtype() && state.shape() == state_.shape(), state.shape().text(),
               state_.shape().text());
  state_ = state;
}

void RecurrentState::note_step(const EnvStep& step) {
  if (empty()) return;
  const auto terminated = step.terminated.view<uint8_t>(), truncated = step.truncated.view<uint8_t>();
  const auto failed = step.failed.view<uint8_t>();
  starts_ = Array(DType::u8, starts_.shape());
  const auto starts = starts_.mutable_view<uint8_t>();
  for (size_t n = 0; n < starts.size(); ++n)
    starts[n] = terminated[n] != 0 || truncated[n] != 0 || failed[n] != 0 ? 1 : 0;
}

void RecurrentState::load(const Array& state, const Array& starts) {
  take(state);
  TROUPE_CHECK(starts.dtype() == starts_.dtype() && starts.shape() == starts_.shape(), starts.shape().text());
  starts_ = starts;
}

}  // namespace troupe
