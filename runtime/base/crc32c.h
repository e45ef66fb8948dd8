#pragma once
// CRC-32C (Castagnoli; RFC 3720 appendix B.4), which TensorBoard's record format and the checkpoints use. Pure; any
// thread.

#include <cstdint>
#include <string_view>

namespace troupe {

// The CRC of `bytes`; `previous` is the CRC of the bytes before them, if they are given in parts.
uint32_t crc32c(std::string_view bytes, uint32_t previous = 0);

}  // namespace troupe
