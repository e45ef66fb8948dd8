// The scan family in every layout, element type, alignment and instruction set, with every
// combination of optional inputs.

#include <limits>
#include <numeric>

#include "algorithms/scan/scan.h"
#include "runtime/base/errors.h"
#include "tests/algorithms/common/sequences.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const std::vector<Placement>& placements() {
  static const std::vector<Placement> kAll = {{Layout::rows, 0, 0, false}, {Layout::rows, 5, 4, false},
                                              {Layout::rows, 3, 2, true},  {Layout::rows, 0, 3, false},
                                              {Layout::time, 0, 0, false}, {Layout::time, 7, 8, false},
                                              {Layout::time, 1, 62, true}, {Layout::time, 0, 1, false}};
  return kAll;
}

std::vector<Sequence> sequences(uint64_t seed, int64_t count, int64_t steps, bool ragged) {
  Rng rng(derive_key(seed, "sequences"));
  std::vector<Sequence> result;
  for (int64_t b = 0; b < count; ++b) {
    const auto length = ragged ? static_cast<int64_t>(rng.below(static_cast<uint64_t>(steps) + 1)) : steps;
    result.emplace_back(rng, length, 6, 0.25);
  }
  return result;
}

Options draw_options(Rng& rng, const Placement& place) {
  const auto coin = [&] { return rng.below(2) == 0; };
  Options o;
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
  return o;
}

// Writes NaN or infinity to all elements that must not be read.
void poison(std::vector<Sequence>& all, const Options& o) {
  for (Sequence& s : all)
    for (std::size_t t = 0; t < s.rewards.size(); ++t) {
      const bool live = !(o.mask || o.valid) || s.mask[t];
      if (!live) s.rewards[t] = s.next[t] = s.log_rho[t] = s.gammas[t] = kNaN;
      if (!live && !o.carry) s.values[t] = t % 2 ? kNaN : kInf;
      if (o.ends && s.terminated[t]) s.next[t] = kNaN;
    }
}

GaeInput gae_input(Memory& memory, const std::vector<Sequence>& all, const Placement& place, const Options& o,
                   std::vector<float>& bootstrap) {
  GaeInput in;
  in.layout = place.layout;
  in.steps = o.packed ? 0 : memory.steps;
  in.sequences = static_cast<int64_t>(all.size());
  if (o.packed) in.offsets = memory.offsets;
  in.rewards = memory.floats(&Sequence::rewards);
  in.values = memory.floats(&Sequence::values);
  if (o.next) in.next_values = memory.floats(&Sequence::next);
  if (o.gammas) in.gammas = memory.floats(&Sequence::gammas);
  if (o.lambdas) in.lambdas = memory.floats(&Sequence::lambdas);
  if (o.ends) in.terminated = memory.flags(&Sequence::terminated);
  if (o.ends) in.truncated = memory.flags(&Sequence::truncated);
  if (o.mask) in.mask = memory.flags(&Sequence::mask);
  if (o.valid) in.valid = memory.flags(&Sequence::mask);
  in.outside = o.carry ? Outside::carry : Outside::zero;
  in.bootstrap_on_truncation = !o.cut_is_end;
  for (const Sequence& s : all) bootstrap.push_back(s.bootstrap);
  if (o.bootstrap) in.bootstrap = bootstrap;
  return in;
}

// Runs gae() and lambda_returns() on one random problem and returns their largest deviation from the oracle.
double gae_misfit(uint64_t seed, const Placement& place, int64_t count, int64_t steps, float gamma, float lambda) {
  Rng rng(derive_key(seed, "options"));
  const Options o = draw_options(rng, place);
  std::vector<Sequence> all = sequences(seed, count, steps, o.packed);
  if (!o.carry || o.valid) poison(all, {.mask = o.mask, .valid = o.valid, .ends = o.ends});
  Pair<double> want;
  for (const Sequence& s : all) gae_oracle(s, o, gamma, lambda, want);
  Memory memory(all, place, o);
  std::vector<float> bootstrap;
  GaeInput in = gae_input(memory, all, place, o, bootstrap);
  in.gamma = gamma;
  in.lambda = lambda;
  const OutputView advantages = memory.output(), returns = memory.output(), alone = memory.output();
  gae(in, advantages, returns);
  lambda_returns(in, alone);
  return std::max({misfit(memory.read(advantages), want.first), misfit(memory.read(returns), want.second),
                   misfit(memory.read(alone), want.second)});
}

}  // namespace

TEST_CASE("scan: gae agrees with the float64 loop in every layout, type, alignment and combination of inputs") {
  on_every_isa([] {
    uint64_t seed = 0;
    for (const Placement& place : placements())
      for (const auto& [steps, count] : shapes())
        for (const auto& [gamma, lambda] : {std::pair{.99f, .95f}, {1.0f, 1.0f}, {0.0f, .5f}, {.9f, 0.0f}})
          for (int draw = 0; draw < 2; ++draw) {
            CAPTURE(++seed);
            CAPTURE(name_of(current_isa()));
            CAPTURE(steps);
            CAPTURE(count);
            CHECK(gae_misfit(seed, place, count, steps, gamma, lambda) <= 1);
          }
  });
}

TEST_CASE("scan: reward-to-go agrees with the float64 loop, with and without the reset at masked steps") {
  on_every_isa([] {
    uint64_t seed = 0;
    for (const Placement& place : placements())
      for (const auto& [steps, count] : shapes())
        for (const bool reset : {false, true}) {
          Rng rng(derive_key(++seed, "options"));
          const Options o = draw_options(rng, place);
          const std::vector<Sequence> all = sequences(seed, count, steps, o.packed);
          Pair<double> want;
          for (const Sequence& s : all) return_oracle(s, o, .97f, reset, want);
          Memory memory(all, place, o);
          std::vector<float> bootstrap;
          const GaeInput from = gae_input(memory, all, place, o, bootstrap);
          ReturnInput in;
          in.steps = from.steps;
          in.sequences = from.sequences;
          in.rewards = from.rewards;
          in.terminated = from.terminated;
          in.mask = from.mask;
          in.masked = reset ? MaskedReturn::reset : MaskedReturn::skip;
          in.outside = from.outside;
          in.gamma = .97f;
          in.gammas = from.gammas;
          in.bootstrap = from.bootstrap;
          in.layout = from.layout;
          in.offsets = from.offsets;
          const OutputView out = memory.output();
          reward_to_go(in, out);
          CAPTURE(seed);
          CHECK(misfit(memory.read(out), want.second) <= 1);
        }
  });
}

TEST_CASE("scan: vtrace along rows equals vtrace down columns") {
  on_every_isa([] {
    uint64_t seed = 0;
    for (const auto& [steps, count] : shapes())
      for (const bool flagged : {false, true})
        for (const bool halves : {false, true}) {
          const std::vector<Sequence> all = sequences(++seed, count, steps, false);
          std::vector<float> results[2][2];
          for (const Layout layout : {Layout::rows, Layout::time}) {
            Memory memory(all, {layout, 3, 4, halves}, {});
            VtraceInput in;
            in.layout = layout;
            in.steps = steps;
            in.sequences = count;
            in.log_rho = memory.floats(&Sequence::log_rho);
            in.rewards = memory.floats(&Sequence::rewards);
            in.values = memory.floats(&Sequence::values);
            in.next_values = memory.floats(&Sequence::next);
            if (flagged) in.terminated = memory.flags(&Sequence::terminated);
            if (flagged) in.truncated = memory.flags(&Sequence::truncated);
            if (flagged) in.valid = memory.flags(&Sequence::mask);
            if (!flagged) in.discounts = memory.floats(&Sequence::gammas);
            in.lambda = .9f;
            in.rho_bar = 2;
            in.c_bar = 1.5f;
            in.multiply_pg_rho = true;
            in.q_mix = flagged ? QMix::impala : QMix::rlax;
            const OutputView vs = memory.output(), pg = memory.output();
            vtrace(in, vs, pg);
            auto& result = results[static_cast<int>(layout)];
            result[0] = memory.read(vs);
            result[1] = memory.read(pg);
          }
          CAPTURE(seed);
          CHECK(misfit(results[1][0], results[0][0]) <= 1);
          CHECK(misfit(results[1][1], results[0][1]) <= 1);
        }
  });
}

TEST_CASE("scan: streamed stores give the same results as ordinary ones, for aligned and unaligned lines") {
  const std::vector<Sequence> all = sequences(7, 1037, 2100, false);  // 17 MB of output
  on_every_isa([&] {
    for (const Placement& place : {Placement{Layout::rows, 0, 0}, Placement{Layout::rows, 3, 4},
                                   Placement{Layout::time, 0, 8}, Placement{Layout::time, 11, 0}}) {
      const Options o{.mask = place.gap == 0, .ends = true};
      Memory memory(all, place, o);
      std::vector<float> bootstrap;
      const GaeInput in = gae_input(memory, all, place, o, bootstrap);
      const OutputView advantages = memory.output(), returns = memory.output();
      gae(in, advantages, returns);
      Pair<double> want;
      for (const Sequence& s : all) gae_oracle(s, o, in.gamma, in.lambda, want);
      CHECK(misfit(memory.read(advantages), want.first) <= 1);
      CHECK(misfit(memory.read(returns), want.second) <= 1);
    }
  });
}

TEST_CASE("scan: time-major results are identical on every instruction set and with any number of threads") {
  for (const int64_t count : {5, 64, 700, 3001}) {
    const std::vector<Sequence> all = sequences(8, count, 230, false);
    const Placement place{Layout::time, 0, 4};
    Rng rng(derive_key(9, "options"));
    for (int draw = 0; draw < 6; ++draw) {
      const Options o = draw ? draw_options(rng, place) : Options{};
      Memory memory(all, place, o);
      std::vector<float> bootstrap;
      GaeInput in = gae_input(memory, all, place, o, bootstrap);
      VtraceInput off;
      off.steps = in.steps;
      off.sequences = count;
      off.log_rho = memory.floats(&Sequence::log_rho);
      off.rewards = in.rewards;
      off.values = in.values;
      off.terminated = in.terminated;
      std::vector<std::vector<float>> results;
      on_every_isa([&] {
        for (const int threads : {1, 2, 3, 8}) {
          in.threads = off.threads = threads;
          const OutputView out[] = {memory.output(), memory.output(), memory.output(), memory.output()};
          gae(in, out[0], out[1]);
          vtrace(off, out[2], out[3]);
          std::vector<float> all_of_them;
          for (const OutputView& view : out) {
            const std::vector<float> part = memory.read(view);
            all_of_them.insert(all_of_them.end(), part.begin(), part.end());
          }
          results.push_back(std::move(all_of_them));
        }
      });
      for (const auto& result : results) CHECK(std::memcmp(result.data(), results[0].data(), 4 * result.size()) == 0);
    }
  }
}

TEST_CASE("scan: results of a few long time-major sequences are identical with any number of threads") {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t count : {5, 24, 33}) {
    const int64_t steps = 4 * (40'000 / count), half = steps / 2;  // enough for four threads
    const auto n = static_cast<std::size_t>(steps * count);
    std::vector<float> rewards(n), values(n), bootstrap(static_cast<std::size_t>(count));
    Rng rng(derive_key(11, "long"));
    for (float& x : rewards) x = static_cast<float>(rng.uniform() - .5);
    for (float& x : values) x = static_cast<float>(rng.uniform() - .5);
    for (float& x : bootstrap) x = static_cast<float>(rng.uniform());
    struct Case {
      float gamma, lambda, poison;
      int64_t poisoned;  // a step of column 3
    };
    // NaN at a cut, directly before and after it, and far from it; weights that decay at once, slowly and never.
    for (const Case& c :
         {Case{.99f, .95f, 0, 0}, Case{.99f, .95f, kNan, half}, Case{.99f, .95f, kInf, half + 1},
          Case{.99f, .95f, -kInf, half - 1}, Case{.99f, .95f, kNan, steps - 1}, Case{.99f, .95f, 1e30f, half + 10},
          Case{.9f, 0, 0, 0}, Case{0, 1, kNan, 100}, Case{.99f, 1, 0, 0}, Case{1, 1, 0, 0}}) {
      std::vector<float> with = rewards;
      if (c.poison != 0) with[static_cast<std::size_t>(c.poisoned * count + 3)] = c.poison;
      GaeInput in;
      in.steps = steps;
      in.sequences = count;
      in.rewards = with;
      in.values = values;
      in.bootstrap = bootstrap;
      in.gamma = c.gamma;
      in.lambda = c.lambda;
      std::vector<float> one[2], many[2];
      for (auto* out : {&one[0], &one[1], &many[0], &many[1]}) out->resize(n);
      on_every_isa([&] {
        in.threads = 1;
        gae(in, one[0], one[1]);
        for (const int threads : {2, 3, 4}) {
          CAPTURE(count);
          CAPTURE(c.gamma * c.lambda);
          CAPTURE(c.poisoned);
          CAPTURE(threads);
          in.threads = threads;
          gae(in, many[0], many[1]);
          CHECK(std::memcmp(one[0].data(), many[0].data(), 4 * n) == 0);
          CHECK(std::memcmp(one[1].data(), many[1].data(), 4 * n) == 0);
        }
      });
    }
  }
}

TEST_CASE("scan: dividing rows among threads does not change results, also for packed ones") {
  for (const bool packed : {false, true}) {
    const std::vector<Sequence> all = sequences(10, 400, 700, packed);
    const Options o{.ends = true, .packed = packed};
    Memory memory(all, {}, o);
    std::vector<float> bootstrap;
    GaeInput in = gae_input(memory, all, {}, o, bootstrap);
    const OutputView one[] = {memory.output(), memory.output()}, many[] = {memory.output(), memory.output()};
    gae(in, one[0], one[1]);
    in.threads = 5;
    gae(in, many[0], many[1]);
    CHECK(memory.read(one[0]) == memory.read(many[0]));
    CHECK(memory.read(one[1]) == memory.read(many[1]));
  }
}

TEST_CASE("scan: gae equals the product with the T x T matrix of decays") {
  on_every_isa([] {
    constexpr std::size_t kSteps = 45;
    const std::vector<Sequence> all = sequences(11, 1, kSteps, false);
    const Sequence& s = all[0];
    const Options o{.ends = true, .next = true, .gammas = true, .lambdas = true};
    Memory memory(all, {}, o);
    std::vector<float> bootstrap;
    const OutputView advantages = memory.output(), returns = memory.output();
    gae(gae_input(memory, all, {}, o, bootstrap), advantages, returns);
    std::vector<double> want(kSteps);
    for (std::size_t t = 0; t < kSteps; ++t) {
      double weight = 1;  // W[t, k]: the product of the factors of the steps from t to k - 1
      for (std::size_t k = t; k < kSteps; ++k) {
        const double delta = s.rewards[k] + (s.terminated[k] ? 0.0 : double{s.gammas[k]} * s.next[k]) - s.values[k];
        want[t] += weight * delta;
        weight *= s.terminated[k] || s.truncated[k] ? 0.0 : double{s.gammas[k]} * s.lambdas[k];
      }
    }
    CHECK(misfit(memory.read(advantages), want) <= 1);
  });
}

TEST_CASE("scan: a long decay over zeros reaches zero and stays fast") {
  std::vector<float> rewards(20000), values(20000), advantages(20000), returns(20000);
  rewards.back() = 1;
  for (const Layout layout : {Layout::rows, Layout::time}) {
    GaeInput in;
    in.layout = layout;
    in.steps = 20000;
    in.sequences = 1;
    in.rewards = rewards;
    in.values = values;
    gae(in, advantages, returns);
    CHECK(advantages[19999] == 1);
    CHECK(advantages[0] == 0);
  }
}

TEST_CASE("scan: outputs that overlap an input or each other are rejected") {
  std::vector<float> memory(100), other(50);
  const std::span<float> all(memory);
  GaeInput in;
  in.steps = 10;
  in.sequences = 5;
  in.rewards = all.first(50);
  in.values = other;
  CHECK_THROWS_AS(gae(in, all.subspan(49, 50), all.subspan(50, 50)), InvariantError);
  CHECK_THROWS_AS(gae(in, all.subspan(50, 50), all.subspan(50, 50)), InvariantError);
  CHECK_THROWS_AS(lambda_returns(in, other), InvariantError);
  CHECK_NOTHROW(lambda_returns(in, all.subspan(50, 50)));
}

TEST_CASE("scan: invalid sizes, offsets and factors are rejected") {
  std::vector<float> x(12), out(12), second(12);
  GaeInput in;
  in.rewards = in.values = x;
  in.steps = 4;
  in.sequences = 3;
  const auto refused = [&](auto change) {
    GaeInput bad = in;
    change(bad);
    CHECK_THROWS_AS(gae(bad, out, second), InvariantError);
  };
  CHECK_NOTHROW(gae(in, out, second));
  refused([](GaeInput& i) { i.sequences = 4; });
  refused([](GaeInput& i) { i.steps = -4; });
  refused([](GaeInput& i) { i.steps = int64_t{1} << 62; });
  refused([](GaeInput& i) { i.threads = 0; });
  refused([&](GaeInput& i) { i.bootstrap = std::span(x).first(2); });
  refused([](GaeInput& i) { i.values = {}; });
  std::vector<uint8_t> flags(12);
  refused([&](GaeInput& i) { i.mask = i.valid = flags; });
  for (const std::vector<int64_t>& offsets :
       {std::vector<int64_t>{0, 5, 4, 12}, {1, 5, 6, 12}, {0, 5, 12}, {0, 4, 8, 13}})
    refused([&](GaeInput& i) {
      i.layout = Layout::rows;
      i.steps = 0;
      i.offsets = offsets;
    });
  CHECK_THROWS_AS(gae(in, {out.data(), 12, 2}, second), InvariantError);
}
