#pragma once
// Numbers of elements as bytes, for estimates of memory. Pure functions; any thread.

#include <cstdint>

namespace troupe {

constexpr double to_double(int64_t value) { return static_cast<double>(value); }
constexpr double float_bytes(int64_t elements) { return 4.0 * to_double(elements); }

}  // namespace troupe
