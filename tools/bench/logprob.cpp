// `troupe bench logprob`: log-probability and entropy from logits, and their gradient, compared in turns with
// kernels that only read the logits, or read them and write as many.

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

#include "algorithms/common/cpu.h"
#include "algorithms/losses/logprob.h"
#include "runtime/base/rng.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/timing.h"

namespace troupe {
namespace {

constexpr int64_t kLogprobRows = 256, kVocabulary = 152064;

void put(float& to, float x) { to = x; }
void put(BFloat16& to, float x) { to.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }

template <class Element>
struct Logits {
  std::vector<Element> logits, grad;
  std::vector<int64_t> labels;
  std::vector<float> log_probs, entropy, ones;
  std::vector<SoftmaxRow> state;
  uint64_t seen = 0;

  Logits()
      : logits(kLogprobRows * kVocabulary),
        grad(logits.size()),
        log_probs(kLogprobRows),
        entropy(kLogprobRows),
        ones(kLogprobRows, 1.0f),
        state(kLogprobRows) {
    Rng random(derive_key(1, "bench logprob"));
    std::vector<Element> row(kVocabulary);
    for (Element& z : row) put(z, 12 * random.uniform() - 6);
    for (int64_t i = 0; i < kLogprobRows; ++i) {
      std::ranges::copy(row, logits.begin() + i * kVocabulary);
      labels.push_back(static_cast<int64_t>(random.below(kVocabulary)));
    }
  }
  LogitRows<Element> view() const { return {logits.data(), kLogprobRows, kVocabulary, kVocabulary}; }
  void forward() { log_probs_entropy(view(), labels, 1.0, log_probs, entropy, state); }
  void backward() { log_probs_entropy_backward<Element>(view(), labels, 1.0, state, ones, ones, grad.data()); }
  // Reads all, in a form that the compiler vectorises.
  void read() {
    const std::size_t words = logits.size() * sizeof(Element) / sizeof(uint64_t);
    const auto* memory = reinterpret_cast<const uint64_t*>(logits.data());
    uint64_t sum = 0;
    for (std::size_t i = 0; i < words; ++i) sum += memory[i];
    seen += sum;
  }
  void copy() { std::memcpy(grad.data(), logits.data(), logits.size() * sizeof(Element)); }
};

template <class Element>
nlohmann::ordered_json measure(const char* dtype, Isa isa, Logits<Element>& data, double seconds) {
  force_isa(isa);
  std::vector<double> forward, backward, read, copy;
  for (double spent = 0; spent < seconds || forward.size() < 3;) {
    forward.push_back(seconds_of([&] { data.forward(); }));
    backward.push_back(seconds_of([&] { data.backward(); }));
    read.push_back(seconds_of([&] { data.read(); }));
    copy.push_back(seconds_of([&] { data.copy(); }));
    spent += forward.back() + backward.back() + read.back() + copy.back();
  }
  force_isa(std::nullopt);
  const double bytes = static_cast<double>(kLogprobRows * kVocabulary * static_cast<int64_t>(sizeof(Element)));
  return {{"dtype", dtype},
          {"isa", name_of(isa)},
          {"forward_tokens_per_second", kLogprobRows / median(forward)},
          {"forward_gigabytes_per_second", bytes / median(forward) / 1e9},
          {"read_gigabytes_per_second", bytes / median(read) / 1e9},
          {"forward_ratio_to_read", median(read) / median(forward)},
          {"backward_tokens_per_second", kLogprobRows / median(backward)},
          {"backward_gigabytes_per_second", 2 * bytes / median(backward) / 1e9},
          {"copy_gigabytes_per_second", 2 * bytes / median(copy) / 1e9},
          {"backward_ratio_to_copy", median(copy) / median(backward)}};
}

template <class Element>
void measure_all(const char* dtype, double seconds, nlohmann::ordered_json& cases, BenchReport& report) {
  Logits<Element> data;
  for (const Isa isa : available_isas()) {
    const nlohmann::ordered_json c = measure(dtype, isa, data, seconds / static_cast<double>(available_isas().size()));
    report.lines.push_back(std::string(dtype) + ", " + std::string(name_of(isa)) + ": forward " +
                           format_number(c["forward_tokens_per_second"], 0) + " tokens/s, " +
                           format_number(c["forward_gigabytes_per_second"], 1) + " GB/s of " +
                           format_number(c["read_gigabytes_per_second"], 1) + " read; backward " +
                           format_number(c["backward_tokens_per_second"], 0) + " tokens/s, " +
                           format_number(c["backward_gigabytes_per_second"], 1) + " GB/s of " +
                           format_number(c["copy_gigabytes_per_second"], 1) + " copied");
    cases.push_back(c);
  }
}

}  // namespace

BenchReport bench_logprob(double seconds) {
  BenchReport report;
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  measure_all<float>("float32", seconds / 2, cases, report);
  measure_all<BFloat16>("bfloat16", seconds / 2, cases, report);
  report.json =
      nlohmann::ordered_json{{"rows", kLogprobRows}, {"vocabulary", kVocabulary}, {"threads", 1}, {"cases", cases}}
          .dump();
  return report;
}

}  // namespace troupe
