#pragma once
// Classes of tokens by their policy lag: the updates from the policy that sampled a token to the one that an update
// starts with. Figures by the lag are those of the tokens of each class. Plain functions; any thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace troupe {

inline constexpr size_t kLagClasses = 9;  // lags of 0, 1, ..., 7 and of 8 or more updates

// A lag below 0 counts as 0.
inline uint8_t lag_class(int64_t lag) {
  return static_cast<uint8_t>(std::clamp<int64_t>(lag, 0, static_cast<int64_t>(kLagClasses) - 1));
}

}  // namespace troupe
