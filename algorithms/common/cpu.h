#pragma once
// Which build of the vector kernels runs: the same source is compiled for several instruction sets, and the best one
// that the processor has is chosen at run time. Any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe {

enum class Isa : uint8_t { sse2 = 0, avx2 = 1, avx512 = 2 };

// "sse2", "avx2" or "avx512". On a processor that is not x86 the only one, "sse2", stands for its 16-byte vectors.
std::string_view name_of(Isa isa);
// Those this processor can run, worst first; never empty.
std::span<const Isa> available_isas();

// What the kernels use: the forced one, else the one that the environment variable TROUPE_ISA names, else the best.
// Throws ConfigError when TROUPE_ISA names an unknown one or one that this processor lacks.
Isa current_isa();
// For tests and benchmarks: every kernel called from now on, in any thread, uses `isa`; none = choose again. Throws
// ConfigError when this processor lacks it.
void force_isa(std::optional<Isa> isa);

}  // namespace troupe
