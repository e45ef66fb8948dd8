#include "algorithms/common/cpu.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "algorithms/common/names.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr std::array<std::string_view, 3> kIsaNames = {"sse2", "avx2", "avx512"};
constexpr std::array kIsas = {Isa::sse2, Isa::avx2, Isa::avx512};
std::atomic<int> chosen{-1};

std::size_t count_available() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return wide ? 3 : 2;
#else
  return 1;
#endif
}

Isa checked(Isa isa, std::string_view who) {
  if (static_cast<std::size_t>(isa) >= available_isas().size())
    throw ConfigError(std::string(who) + ": this processor does not support " + std::string(name_of(isa)));
  return isa;
}

}  // namespace

std::string_view name_of(Isa isa) { return kIsaNames[static_cast<std::size_t>(isa)]; }

std::span<const Isa> available_isas() {
  static const std::size_t count = count_available();
  return std::span(kIsas).first(count);
}

Isa current_isa() {
  if (const int isa = chosen.load(std::memory_order_relaxed); isa >= 0) return static_cast<Isa>(isa);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the environment does not change once there are threads
  const char* wanted = std::getenv("TROUPE_ISA");
  const Isa isa = wanted ? checked(static_cast<Isa>(find_name("TROUPE_ISA", wanted, kIsaNames)), "TROUPE_ISA")
                         : available_isas().back();
  chosen.store(static_cast<int>(isa), std::memory_order_relaxed);
  return isa;
}

void force_isa(std::optional<Isa> isa) {
  chosen.store(isa ? static_cast<int>(checked(*isa, "force_isa")) : -1, std::memory_order_relaxed);
}

}  // namespace troupe
