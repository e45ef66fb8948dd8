#include "algorithms/cpu.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "algorithms/names.h"
#include "algorithms/scan.h"
#include "runtime/errors.h"

namespace troupe {

namespace {

constexpr std::string_view kNames[] = {"sse2", "avx2", "avx512"};
constexpr int kChoose = -1;
std::atomic<int> forced = kChoose;

bool has(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2)
    return scan_kernels_avx2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::avx512) return scan_kernels_avx512() && has(Isa::avx2) && __builtin_cpu_supports("avx512f");
#endif
  return isa == Isa::sse2;
}

std::string list_of_available() {
  std::string list;
  for (const Isa isa : available_isas()) list += (list.empty() ? "" : ", ") + std::string(name_of(isa));
  return list;
}

Isa require(Isa isa, const std::string& who) {
  if (has(isa)) return isa;
  throw ConfigError(who + ": this processor has no " + std::string(name_of(isa)) + " (it has: " + list_of_available() +
                    ")");
}

Isa choose() {
  const char* wanted = std::getenv("TROUPE_ISA");  // NOLINT(concurrency-mt-unsafe): read once, nobody here writes it
  if (wanted == nullptr || *wanted == '\0') return available_isas().back();
  return require(static_cast<Isa>(find_name("TROUPE_ISA", wanted, kNames)), "TROUPE_ISA");
}

}  // namespace

std::string_view name_of(Isa isa) { return kNames[static_cast<int>(isa)]; }

std::span<const Isa> available_isas() {
  static const auto kAvailable = [] {
    std::pair<std::array<Isa, 3>, std::size_t> found{};
    for (const Isa isa : {Isa::sse2, Isa::avx2, Isa::avx512})
      if (has(isa)) found.first[found.second++] = isa;
    return found;
  }();
  return std::span(kAvailable.first).first(kAvailable.second);
}

Isa current_isa() {
  const int isa = forced.load(std::memory_order_relaxed);
  if (isa != kChoose) return static_cast<Isa>(isa);
  static const Isa kChosen = choose();
  return kChosen;
}

void force_isa(std::optional<Isa> isa) { forced = isa ? static_cast<int>(require(*isa, "force_isa")) : kChoose; }

}  // namespace troupe
