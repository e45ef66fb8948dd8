// Random problems for the whole scan family, on every instruction set, compared with plain float64 loops. The arrays
// end where their buffers end, so that AddressSanitizer detects out-of-bounds accesses (preset dev).
//
// Environment: TROUPE_FUZZ_SECONDS: run that long instead of a fixed number of problems; TROUPE_FUZZ_SEED: seed of the
// first problem. A failure prints its seed: with this seed and 0 seconds, only that problem runs.

#include <chrono>
#include <cstdlib>

#include "algorithms/scan/scan.h"
#include "tests/algorithms/common/sequences.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t kProblems = 60;

// A length: usually short, sometimes close to the sizes of vectors and lines, rarely long enough for several threads.
int64_t draw_size(Rng& rng) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(rng.below(n)); };
  switch (rng.below(8)) {
    case 0: return below(3);
    case 1: return std::max<int64_t>(0, 16 * below(9) + below(3) - 1);
    case 2: return below(600);
    default: return below(48);
  }
}

struct Problem {
  Placement place;
  Options options;
  std::vector<Sequence> sequences;
  float gamma = 1, lambda = 1;
  int threads = 1;
  bool reset = false;

  explicit Problem(uint64_t seed) {
    Rng rng(derive_key(seed, "fuzz"));
    const auto coin = [&] { return rng.below(2) == 0; };
    place.exact = true;
    place.layout = coin() ? Layout::rows : Layout::time;
    place.gap = coin() ? 0 : static_cast<int64_t>(rng.below(40));
    place.offset = 4 * static_cast<int64_t>(rng.below(17));
    place.halves = rng.below(3) == 0;
    Options& o = options;
    o.mask = coin();
    o.valid = !o.mask && coin();
    o.ends = coin();
    o.next = coin();
    o.bootstrap = coin();
    o.gammas = rng.below(4) == 0;
    o.lambdas = rng.below(4) == 0;
    o.carry = coin();
    o.cut_is_end = coin();
    o.packed = place.layout == Layout::rows && rng.below(3) == 0;
    reset = coin();
    gamma = coin() ? 0.99f : coin() ? 1.0f : rng.below(3) == 0 ? 0.0f : static_cast<float>(rng.uniform_double());
    lambda = coin() ? 0.95f : coin() ? 1.0f : rng.below(3) == 0 ? 0.0f : static_cast<float>(rng.uniform_double());
    int64_t count = draw_size(rng), steps = draw_size(rng);
    count = std::min<int64_t>(count, 8000 / std::max<int64_t>(1, steps));
    if (rng.below(100) == 0) count = 200 + static_cast<int64_t>(rng.below(300)), steps = 150 + count % 97;
    threads = 1 + static_cast<int>(rng.below(4));
    const uint64_t one_in = coin() ? 6 : 60;
    const double masked = coin() ? 0.25 : 0.02;
    for (int64_t b = 0; b < count; ++b) {
      const auto length = static_cast<int64_t>(rng.below(static_cast<uint64_t>(steps) + 1));
      sequences.emplace_back(rng, o.packed ? length : steps, one_in, masked);
    }
  }
};

// Writes NaN and infinity wherever nothing may be read; for vtrace() also to the next values that it does not read.
void poison(std::vector<Sequence>& all, const Options& o) {
  const float junk[] = {kNaN, kInf, -kInf};
  for (Sequence& s : all)
    for (std::size_t t = 0; t < s.rewards.size(); ++t) {
      const bool live = !(o.mask || o.valid) || s.mask[t] != 0;
      if (!live) s.rewards[t] = s.next[t] = s.log_rho[t] = s.gammas[t] = s.lambdas[t] = junk[t % 3];
      if (!live && !o.carry) s.values[t] = junk[(t + 1) % 3];
      if (o.ends && s.terminated[t]) s.next[t] = junk[t % 3];
    }
}

template <class Input>
void fill(Input& in, const Problem& p, Memory& memory) {
  in.layout = p.place.layout;
  in.steps = p.options.packed ? 0 : memory.steps;
  in.sequences = static_cast<int64_t>(p.sequences.size());
  in.rewards = memory.floats(&Sequence::rewards);
  in.threads = p.threads;
  in.gamma = p.gamma;
  if (p.options.ends) in.terminated = memory.flags(&Sequence::terminated);
}

std::vector<float> bootstraps(const Problem& p) {
  std::vector<float> result;
  if (p.options.bootstrap)
    for (const Sequence& s : p.sequences) result.push_back(s.bootstrap);
  return result;
}

void fuzz_gae(const Problem& given) {
  Problem p = given;
  if (!p.options.carry || p.options.valid) poison(p.sequences, p.options);
  if (p.options.valid) p.options.carry = false;
  Pair<double> want;
  for (const Sequence& s : p.sequences) gae_oracle(s, p.options, p.gamma, p.lambda, want);
  Memory memory(p.sequences, p.place, p.options);
  const std::vector<float> bootstrap = bootstraps(p);
  GaeInput in;
  fill(in, p, memory);
  in.values = memory.floats(&Sequence::values);
  if (p.options.next) in.next_values = memory.floats(&Sequence::next);
  if (p.options.gammas) in.gammas = memory.floats(&Sequence::gammas);
  if (p.options.lambdas) in.lambdas = memory.floats(&Sequence::lambdas);
  if (p.options.ends) in.truncated = memory.flags(&Sequence::truncated);
  if (p.options.mask) in.mask = memory.flags(&Sequence::mask);
  if (p.options.valid) in.valid = memory.flags(&Sequence::mask);
  if (p.options.packed) in.offsets = memory.offsets;
  in.outside = p.options.carry ? Outside::carry : Outside::zero;
  in.bootstrap_on_truncation = !p.options.cut_is_end;
  in.lambda = p.lambda;
  in.bootstrap = bootstrap;
  const OutputView advantages = memory.output(), returns = memory.output(), alone = memory.output();
  gae(in, advantages, returns);
  lambda_returns(in, alone);
  CHECK(misfit(memory.read(advantages), want.first) <= 1);
  CHECK(misfit(memory.read(returns), want.second) <= 1);
  CHECK(misfit(memory.read(alone), want.second) <= 1);
}

void fuzz_returns(const Problem& given) {
  Problem p = given;
  p.options.valid = false;
  if (!p.options.carry) poison(p.sequences, p.options);
  Pair<double> want;
  for (const Sequence& s : p.sequences) return_oracle(s, p.options, p.gamma, p.reset, want);
  Memory memory(p.sequences, p.place, p.options);
  const std::vector<float> bootstrap = bootstraps(p);
  ReturnInput in;
  fill(in, p, memory);
  if (p.options.gammas) in.gammas = memory.floats(&Sequence::gammas);
  if (p.options.mask) in.mask = memory.flags(&Sequence::mask);
  if (p.options.packed) in.offsets = memory.offsets;
  in.masked = p.reset ? MaskedReturn::reset : MaskedReturn::skip;
  in.outside = p.options.carry ? Outside::carry : Outside::zero;
  in.bootstrap = bootstrap;
  const OutputView out = memory.output();
  reward_to_go(in, out);
  CHECK(misfit(memory.read(out), want.second) <= 1);
}

// Compares along rows with down columns, which share no loop, and both with one thread, within their tolerances.
void fuzz_vtrace(const Problem& given) {
  Problem p = given;
  p.options.mask = p.options.packed = p.options.carry = false;
  for (Sequence& s : p.sequences) {  // equal lengths, not packed
    const auto steps = static_cast<int64_t>(p.sequences.front().rewards.size());
    if (s.steps() != steps) return;
  }
  poison(p.sequences, p.options);
  const std::vector<float> bootstrap = bootstraps(p);
  std::vector<float> results[2][2];
  for (const Layout layout : {Layout::rows, Layout::time}) {
    p.place.layout = layout;
    Memory memory(p.sequences, p.place, p.options);
    VtraceInput in;
    fill(in, p, memory);
    in.log_rho = memory.floats(&Sequence::log_rho);
    in.values = memory.floats(&Sequence::values);
    if (p.options.next) in.next_values = memory.floats(&Sequence::next);
    if (p.options.ends) in.truncated = memory.flags(&Sequence::truncated);
    if (p.options.valid) in.valid = memory.flags(&Sequence::mask);
    if (p.options.gammas) in.discounts = memory.floats(&Sequence::gammas);
    in.bootstrap_on_truncation = !p.options.cut_is_end;
    in.lambda = p.lambda;
    in.rho_bar = p.reset ? 1.0f : 2.0f;
    in.c_bar = 1.0f;
    in.multiply_pg_rho = p.reset;
    in.q_mix = p.options.lambdas ? QMix::rlax : QMix::impala;
    in.bootstrap = bootstrap;
    const OutputView vs = memory.output(), pg = memory.output();
    vtrace(in, vs, pg);
    results[static_cast<int>(layout)][0] = memory.read(vs);
    results[static_cast<int>(layout)][1] = memory.read(pg);
  }
  CHECK(misfit(results[1][0], std::vector<double>(results[0][0].begin(), results[0][0].end())) <= 1);
  CHECK(misfit(results[1][1], std::vector<double>(results[0][1].begin(), results[0][1].end())) <= 1);
}

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("fuzz_scan: random problems agree with the float64 loops and access nothing outside their arrays") {
  using Clock = std::chrono::steady_clock;
  const bool timed = std::getenv("TROUPE_FUZZ_SECONDS") != nullptr;
  const auto end = Clock::now() + std::chrono::seconds(number_in("TROUPE_FUZZ_SECONDS", 0));
  const uint64_t first = number_in("TROUPE_FUZZ_SEED", 1);
  uint64_t seed = first;
  do {
    const Problem problem(seed);
    CAPTURE(seed);
    on_every_isa([&] {
      CAPTURE(name_of(current_isa()));
      fuzz_gae(problem);
      fuzz_returns(problem);
      fuzz_vtrace(problem);
    });
    ++seed;
  } while (timed ? Clock::now() < end : seed < first + kProblems);
  const uint64_t problems = seed - first;
  MESSAGE(problems, " problems");
}
