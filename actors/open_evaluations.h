#pragma once
// How many evaluations of a run may be open. A pure function; any thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace troupe {

// How many evaluations may be under way or wait. Each holds a snapshot of this many bytes, and a run does not end
// before all are made.
inline uint64_t most_open_evaluations(size_t snapshot_bytes) {
  constexpr uint64_t kBytes = uint64_t{256} << 20;
  return std::clamp<uint64_t>(kBytes / std::max<size_t>(snapshot_bytes, 1), 2, 32);
}

}  // namespace troupe
