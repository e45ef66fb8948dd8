#include "tools/bench/scan.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <nlohmann/json.hpp>

#include "algorithms/scan/scan.h"
#include "runtime/base/rng.h"
#include "runtime/stats/console.h"
#include "tools/bench/timing.h"

namespace troupe {
namespace {

constexpr int64_t kLengths[] = {64, 256, 1024, 4096, 16384, 65536};
constexpr int64_t kCachedLength = 2048, kCachedSequences = 16;  // 512 KB in all four arrays
constexpr int64_t kVariantLength = 2048;
constexpr std::size_t kLeastTurns = 3;

// Seconds of one run, measured over at least a millisecond of runs.
double seconds_of_one(const std::function<void()>& run, int repeats) {
  const auto start = BenchClock::now();
  for (int i = 0; i < repeats; ++i) run();
  return std::chrono::duration<double>(BenchClock::now() - start).count() / repeats;
}

// The limit kernel in the best instruction set over n steps, on `threads` threads.
std::function<void()> limit_of(const ScanData& data, int64_t n, int threads, bool stream) {
  force_isa(available_isas().back());
  const StreamKernel limit = scan_kernels().limit;
  const auto *a = static_cast<const float*>(data.floats(0, n).data),
             *b = static_cast<const float*>(data.floats(1, n).data);
  float *c = data.output(0, n).data, *d = data.output(1, n).data;
  const int64_t part = n / threads;
  const auto run = [=](int64_t i) { limit(a + i * part, b + i * part, c + i * part, d + i * part, part, stream); };
  return [=] {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(run, i);
    run(0);
  };
}

struct ScanFigures {
  double gb_per_s = 0, limit_gb_per_s = 0, ratio = 0;
};

// In turns with the limit kernel, which uses the faster kind of stores for this size.
ScanFigures measure(const ScanCase& c, const ScanData& data, double seconds) {
  constexpr double kShortest = 1e-3, kLimitBytes = 16;
  const auto repeats = [&](double bytes) { return std::max(1, static_cast<int>(kShortest * 1e10 / bytes)); };
  const double limit_bytes = kLimitBytes * static_cast<double>(c.elements());
  std::function<void()> limit = limit_of(data, c.elements(), c.threads, false);
  const std::function<void()> streamed = limit_of(data, c.elements(), c.threads, true);
  for (int i = 0; i < 2; ++i) seconds_of_one(streamed, repeats(limit_bytes));
  if (seconds_of_one(streamed, repeats(limit_bytes)) < seconds_of_one(limit, repeats(limit_bytes))) limit = streamed;
  std::vector<double> rates, limits, ratios;
  const auto start = BenchClock::now();
  while (ratios.size() < kLeastTurns || std::chrono::duration<double>(BenchClock::now() - start).count() < seconds) {
    limits.push_back(limit_bytes / seconds_of_one(limit, repeats(limit_bytes)) / 1e9);
    force_isa(c.isa);
    rates.push_back(c.bytes / seconds_of_one(c.run, repeats(c.bytes)) / 1e9);
    ratios.push_back(rates.back() / limits.back());
  }
  force_isa(std::nullopt);
  return {median(rates), median(limits), median(ratios)};
}

std::string name_of(Layout layout) { return layout == Layout::rows ? "BT" : "TB"; }

}  // namespace

ScanData::ScanData(int64_t elements)
    : dones_(elements), masks_{LineAligned<uint8_t>(elements), LineAligned<uint8_t>(elements)} {
  Rng rng(derive_key(1, "bench scan"));
  for (int i = 0; i < kInputs + kOutputs; ++i) arrays_.emplace_back(elements);
  for (int64_t i = 0; i < elements; ++i) {
    for (int a = 0; a < kInputs; ++a) arrays_[static_cast<std::size_t>(a)].get()[i] = rng.uniform() - 0.5f;
    dones_.get()[i] = rng.below(200) == 0;
  }
}

FlagView ScanData::mask(int64_t sequences, int64_t steps, Layout layout) {
  Rng rng(derive_key(2, "bench scan"));
  uint8_t* mask = masks_[static_cast<int>(layout)].get();
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t length = steps / 2 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(steps / 2 + 1)));
    for (int64_t t = 0; t < steps; ++t) {
      const bool gap = t >= length * 4 / 10 && t < length / 2;
      mask[layout == Layout::rows ? b * steps + t : t * sequences + b] = t < length && !gap;
    }
  }
  return {mask, static_cast<std::size_t>(sequences * steps)};
}

std::vector<ScanCase> scan_sweep() {
  std::vector<ScanCase> cases;
  const int all = std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
  for (const Layout layout : {Layout::rows, Layout::time})
    for (const Isa isa : available_isas()) {
      for (const int threads : {1, all})
        for (const int64_t steps : kLengths)
          cases.push_back({"plain", layout, isa, threads, kScanElements / steps, steps, 0, {}});
      cases.push_back({"plain", layout, isa, 1, kCachedSequences, kCachedLength, 0, {}});
    }
  return cases;
}

std::vector<ScanCase> scan_variant(const std::string& variant) {
  std::vector<ScanCase> cases;
  for (const Layout layout : {Layout::rows, Layout::time})
    cases.push_back(
        {variant, layout, available_isas().back(), 1, kScanElements / kVariantLength, kVariantLength, 0, {}});
  return cases;
}

BenchReport bench_scan(const std::vector<ScanCase>& cases, const ScanData& data, double seconds) {
  BenchReport report;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ScanCase& c : cases) {
    const ScanFigures f = measure(c, data, seconds / static_cast<double>(cases.size()));
    list.push_back({{"variant", c.variant},
                    {"layout", name_of(c.layout)},
                    {"isa", name_of(c.isa)},
                    {"threads", c.threads},
                    {"sequences", c.sequences},
                    {"steps", c.steps},
                    {"bytes", c.bytes},
                    {"gb_per_s", f.gb_per_s},
                    {"limit_gb_per_s", f.limit_gb_per_s},
                    {"ratio_to_limit", f.ratio}});
    report.lines.push_back(c.variant + ' ' + name_of(c.layout) + ' ' + std::string(name_of(c.isa)) + ", " +
                           std::to_string(c.threads) + " threads, " + std::to_string(c.sequences) + " x " +
                           std::to_string(c.steps) + ": " + format_number(f.gb_per_s, 2) + " GB/s, " +
                           format_number(f.ratio, 2) + " of the limit " + format_number(f.limit_gb_per_s, 2));
  }
  report.json = nlohmann::ordered_json{{"limit", "two arrays read, two written"}, {"cases", list}}.dump();
  return report;
}

}  // namespace troupe
