// Head::sample_decision(), compared with Head::sample() on all decisions.

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "models/heads/heads.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr int64_t kSamples = 6;
constexpr float kNotFinite = std::numeric_limits<float>::quiet_NaN();

ActionSpec decisions(std::vector<int32_t> bins, int32_t chunk, bool masked) {
  ActionSpec spec;
  spec.kind = ActionKind::multi_discrete;
  spec.bins = std::move(bins);
  spec.chunk = chunk;
  spec.masked = masked;
  return spec;
}

// Samples with random outputs; every other one is greedy.
struct Samples {
  Head head;
  std::vector<float> outputs, log_probs;
  std::vector<uint8_t> mask, greedy;
  std::vector<int64_t> seeds;
  std::vector<int32_t> actions;

  explicit Samples(const ActionSpec& spec)
      : head(spec),
        outputs(kSamples * head.outputs()),
        log_probs(kSamples * head.decisions()),
        mask(kSamples * head.mask_size(), 1),
        greedy(kSamples),
        seeds(kSamples),
        actions(kSamples * head.decisions(), -1) {
    Rng rng(3);
    for (float& x : outputs) x = 3.0f * rng.normal();
    for (uint8_t& x : mask) x = rng.below(3) > 0;
    for (int64_t i = 0; i < kSamples && !mask.empty(); ++i)
      for (const Head::Decision& each : head.layout()) mask[i * head.mask_size() + each.first] = 1;
    for (size_t i = 0; i < greedy.size(); ++i) greedy[i] = i % 2;
    std::iota(seeds.begin(), seeds.end(), -2);
  }
  HeadInput input() const { return {.samples = kSamples, .outputs = outputs, .log_std = {}, .mask = mask}; }
  void sample() { head.sample(input(), seeds, greedy, {actions, {}}, log_probs); }
  void sample_decision(int64_t d) { head.sample_decision(input(), d, seeds, greedy, actions, log_probs); }
};

}  // namespace

TEST_CASE("heads: decisions drawn one by one are those of sample, to the bit") {
  for (const ActionSpec& spec : {decisions({5, 3, 70}, 4, false), decisions({4, 6, 2}, 1, true)}) {
    Samples all(spec), single(spec);
    all.sample();
    for (int64_t d = single.head.decisions() - 1; d >= 0; --d) single.sample_decision(d);  // the order does not matter
    CHECK(single.actions == all.actions);
    CHECK(single.log_probs == all.log_probs);
  }
}

TEST_CASE("heads: a decision drawn alone reads and writes nothing of the others") {
  Samples s(decisions({5, 3}, 2, false));
  const int64_t decision = 2, width = s.head.outputs();
  const auto [first, bins] = s.head.layout()[decision];
  for (int64_t i = 0; i < kSamples * width; ++i)
    if (i % width < first || i % width >= first + bins) s.outputs[i] = kNotFinite;
  s.sample_decision(decision);
  for (size_t i = 0; i < s.actions.size(); ++i)
    CHECK((s.actions[i] == -1) == (static_cast<int64_t>(i) % s.head.decisions() != decision));
}

TEST_CASE("heads: an output of the decision that is not finite is refused with its sample") {
  Samples s(decisions({5, 3}, 1, false));
  s.outputs[2 * s.head.outputs() + 6] = kNotFinite;
  CHECK_NOTHROW(s.sample_decision(0));
  CHECK_THROWS_WITH_AS(s.sample_decision(1), doctest::Contains("sample 2 is not finite"), NotFinite);
}
