#include "algorithms/losses/surrogate.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/errors.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("surrogate diagnostics: agree with a float64 loop") {
  on_every_isa([] {
    const Tokens tokens(5000, 11, .6f);
    const Result result = run_clip(tokens, {{"clip_high", .3}, {"dual_clip", 2.0}});
    const SurrogateDiagnostics got = diagnostics_of(result.sums);
    double n = 0, k1 = 0, k2 = 0, k3 = 0, clip = 0, dual = 0, outside = 0, dead = 0, w = 0, w2 = 0, c = 0, c2 = 0;
    double largest = 0, smallest = 1e9, loss = 0;
    for (std::size_t i = 0; i < 5000; ++i) {
      if (!tokens.live(i)) continue;
      const double d = tokens.log_ratio(i), r = std::exp(d), a = tokens.advantages[i];
      const bool high = r > 1.3, low = r < 0.8;
      const double clamped = std::clamp(r, 0.8, 1.3);
      n += 1, k1 -= d, k2 += d * d / 2, k3 += r - 1 - d, loss += result.loss[i];
      clip += (high && a > 0) || (low && a < 0);
      dual += a < 0 && r > 2;
      dead += (high && a > 0) || (low && a < 0) || (a < 0 && r > 2);
      outside += high || low;
      w += r, w2 += r * r, c += clamped, c2 += clamped * clamped;
      largest = std::max(largest, r), smallest = std::min(smallest, r);
    }
    CHECK(got.count == n);
    CHECK(result.sums.loss == doctest::Approx(loss).epsilon(1e-12));
    CHECK(got.kl_k1 == doctest::Approx(k1 / n).epsilon(1e-9));
    CHECK(got.kl_k2 == doctest::Approx(k2 / n).epsilon(1e-9));
    CHECK(got.kl_k3 == doctest::Approx(k3 / n).epsilon(1e-6));
    CHECK(got.clip_fraction == doctest::Approx(clip / n).epsilon(1e-12));
    CHECK(got.clip_fraction_lower == doctest::Approx(dual / n).epsilon(1e-12));
    CHECK(got.outside_fraction == doctest::Approx(outside / n).epsilon(1e-12));
    CHECK(got.dead_gradient_fraction == doctest::Approx(dead / n).epsilon(1e-12));
    CHECK(got.ess == doctest::Approx(w * w / (n * w2)).epsilon(1e-6));
    CHECK(got.ess_clamped == doctest::Approx(c * c / (n * c2)).epsilon(1e-6));
    CHECK(got.ratio_mean == doctest::Approx(w / n).epsilon(1e-6));
    CHECK(got.ratio_max == doctest::Approx(largest).epsilon(1e-6));
    CHECK(got.ratio_min == doctest::Approx(smallest).epsilon(1e-6));
  });
}

TEST_CASE("surrogate diagnostics: the dead fraction is the fraction of zero gradients where A is not 0") {
  const Tokens tokens(4000, 12, 9.0f);
  const Result got = run_clip(tokens, {{"dual_clip", 3.0}});
  double dead = 0, count = 0;
  for (std::size_t i = 0; i < 4000; ++i) {
    if (!tokens.live(i)) continue;
    count += 1;
    dead += got.grad[i] == 0 && (tokens.advantages[i] != 0 || std::abs(tokens.log_ratio(i)) > 20);
  }
  CHECK(diagnostics_of(got.sums).dead_gradient_fraction == doctest::Approx(dead / count).epsilon(1e-12));
}

TEST_CASE("surrogate diagnostics: surrogates count their own clipping, but all use the clip rule for dead gradients") {
  const Tokens tokens = Tokens::of({.5, 1, 1.5, .5, 1.5}, {1, 1, 1, -1, -1});
  const auto of = [&](const char* name, const Settings& settings = {}) {
    return diagnostics_of(run_clip(tokens, settings, name).sums);
  };
  CHECK(of("clip").clip_fraction == doctest::Approx(.4));
  CHECK(of("ce_gppo").clip_fraction == doctest::Approx(.4));
  CHECK(of("cispo").clip_fraction == doctest::Approx(.4));
  CHECK(of("cispo", {{"verl_compat", true}}).clip_fraction == doctest::Approx(.8));
  for (const char* name : {"soft_clip", "sapo", "gpg", "reinforce", "gipo", "none"}) {
    CHECK(of(name).clip_fraction == 0);
    CHECK(of(name).dead_gradient_fraction == doctest::Approx(.4));
    CHECK(of(name).outside_fraction == doctest::Approx(.8));
  }
  CHECK(of("sapo").saturated_fraction == 0);
  CHECK(diagnostics_of(run_clip(Tokens::of({1, 30}, {1, 1}), {}, "sapo").sums).saturated_fraction == .5);
}

TEST_CASE("surrogate diagnostics: raw and clamped effective sample size of four ratios") {
  const SurrogateDiagnostics got = diagnostics_of(run_clip(Tokens::of({.5, 1, 2, 4}, {1, 1, 1, 1})).sums);
  CHECK(got.ess == doctest::Approx(.662).epsilon(1e-3));
  CHECK(got.ess_clamped == doctest::Approx(.976).epsilon(1e-3));
}

TEST_CASE("surrogate diagnostics: k3 of tiny log-ratios is accurate") {
  Tokens tokens = Tokens::of({1}, {1});
  tokens.log_probs = {1e-6f};
  CHECK(diagnostics_of(run_clip(tokens).sums).kl_k3 == doctest::Approx(.5e-12).epsilon(1e-5));
}

TEST_CASE("surrogate diagnostics: without unmasked tokens all are 0") {
  Tokens tokens(200);
  std::ranges::fill(tokens.mask, uint8_t{0});
  for (const SurrogateEntry& entry : surrogate_table())
    for (const SurrogateInput& in : {tokens.input(), SurrogateInput{}}) {
      const SurrogateSums sums = surrogate_with(entry.name)(in, {});
      const SurrogateDiagnostics d = diagnostics_of(sums);
      for (const double x : {sums.loss, d.kl_k1, d.kl_k2, d.kl_k3, d.clip_fraction, d.clip_fraction_lower,
                             d.outside_fraction, d.dead_gradient_fraction, d.saturated_fraction, d.ess, d.ess_clamped,
                             d.ratio_mean, d.ratio_max, d.ratio_min, d.count})
        CHECK(x == 0);
    }
}

TEST_CASE("surrogate diagnostics: merged sums of parts equal the sums of the whole") {
  const Tokens whole(1000, 17);
  const SurrogateSums want = surrogate_with("clip")(whole.input(), {});
  SurrogateSums merged;
  const SurrogateInput in = whole.input();
  for (const auto& [from, size] : {std::pair{0, 333}, {333, 0}, {333, 667}})
    merged.merge(surrogate_with("clip")({in.log_probs.subspan(from, size), in.old_log_probs.subspan(from, size),
                                         in.advantages.subspan(from, size), in.mask.subspan(from, size)},
                                        {}));
  CHECK(merged.count == want.count);
  CHECK(merged.loss == doctest::Approx(want.loss).epsilon(1e-12));
  CHECK(merged.ratio_max == want.ratio_max);
  CHECK(merged.ratio_min == want.ratio_min);
  CHECK(diagnostics_of(merged).ess == doctest::Approx(diagnostics_of(want).ess).epsilon(1e-12));
  CHECK(diagnostics_of(merged).clip_fraction == diagnostics_of(want).clip_fraction);
}
