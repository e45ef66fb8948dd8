#pragma once

namespace troupe::test {

// Programs built with AddressSanitizer take many times the memory, so tests check memory limits only without it.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace troupe::test
