#pragma once
// Selects the build of the vector kernels: the same source is compiled for several instruction sets, and the best one
// that the processor supports is chosen at run time. Any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe {

enum class Isa : uint8_t { sse2 = 0, avx2 = 1, avx512 = 2 };

// "sse2", "avx2" or "avx512". On processors other than x86, "sse2" is the only one and means 16-byte vectors.
std::string_view name_of(Isa isa);
// The instruction sets that this processor supports, slowest first; never empty.
std::span<const Isa> available_isas();

// The instruction set that kernels use: the forced one, else the one in the environment variable TROUPE_ISA, else the
// best. Throws ConfigError when TROUPE_ISA is unknown or not supported by this processor.
Isa current_isa();
// For tests and benchmarks: all kernels called from now on, in any thread, use `isa`; nullopt = choose automatically
// again. Throws ConfigError when this processor does not support it.
void force_isa(std::optional<Isa> isa);

}  // namespace troupe
