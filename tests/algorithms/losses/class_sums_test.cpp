// The sums of a surrogate by class of its tokens, against plain loops in float64.

#include "algorithms/losses/class_sums.h"

#include <cmath>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr size_t kClasses = 4;

std::vector<uint8_t> random_classes(int64_t count) {
  Rng rng(derive_key(5, "classes"));
  std::vector<uint8_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(static_cast<uint8_t>(rng.below(kClasses)));
  return result;
}

std::vector<ClassSums> sums_by_class(const Surrogate& surrogate, const Tokens& tokens,
                                     const std::vector<uint8_t>& classes, size_t count = kClasses) {
  std::vector<ClassSums> result(count);
  SurrogateInput in = tokens.input();
  in.classes = classes;
  SurrogateOutput out;
  out.by_class = result;
  surrogate(in, out);
  return result;
}

}  // namespace

TEST_CASE("class_sums: those of the clip surrogate agree with a float64 loop over the tokens of each class") {
  on_every_isa([] {
    const Tokens tokens(1000, 11, .6f);
    const std::vector<uint8_t> classes = random_classes(1000);
    const std::vector<ClassSums> got =
        sums_by_class(surrogate_with("clip", {{"clip_high", .3}, {"dual_clip", 2.0}}), tokens, classes);
    for (size_t of = 0; of < kClasses; ++of) {
      double n = 0, k3 = 0, clip = 0, dead = 0, w = 0, w2 = 0;
      for (size_t i = 0; i < 1000; ++i) {
        if (!tokens.live(i) || classes[i] != of) continue;
        const double d = tokens.log_ratio(i), r = std::exp(d), a = tokens.advantages[i];
        const bool clipped = (a > 0 && r > 1.3) || (a < 0 && r < 0.8);
        n += 1, k3 += r - 1 - d, w += r, w2 += r * r, clip += clipped, dead += clipped || (a < 0 && r > 2);
      }
      CHECK(n > 50);
      CHECK(got[of].count == n);
      CHECK(got[of].clipped == clip);
      CHECK(got[of].dead == dead);
      CHECK(got[of].k3 == doctest::Approx(k3).epsilon(1e-6));
      const ClassDiagnostics figures = diagnostics_of(got[of]);
      CHECK(figures.ess == doctest::Approx(w * w / (n * w2)).epsilon(1e-6));
      CHECK(figures.kl == doctest::Approx(k3 / n).epsilon(1e-6));
    }
  });
}

TEST_CASE("class_sums: of every surrogate, the classes together are all tokens") {
  const Tokens tokens(700, 3);
  const std::vector<uint8_t> classes = random_classes(700);
  for (const SurrogateEntry& entry : surrogate_table()) {
    CAPTURE(entry.name);
    const Surrogate surrogate = surrogate_with(entry.name);
    ClassSums got;
    for (const ClassSums& of : sums_by_class(surrogate, tokens, classes)) got.merge(of);
    const SurrogateSums all = surrogate(tokens.input(), {});
    CHECK(got.count == all.count);
    CHECK(got.clipped == all.clipped);
    CHECK(got.dead == all.dead);
    CHECK(got.k3 == doctest::Approx(all.k3).epsilon(1e-12));
    CHECK(got.ratio == doctest::Approx(all.ratio).epsilon(1e-12));
    CHECK(got.ratio_squared == doctest::Approx(all.ratio_squared).epsilon(1e-12));
  }
}

TEST_CASE("class_sums: a class without tokens has no figures, and a class that is too large is refused") {
  const Tokens tokens = Tokens::of({.5, 1, 1.5}, {1, 1, 1});
  const std::vector<ClassSums> got = sums_by_class(surrogate_with("clip"), tokens, {0, 2, 2});
  CHECK(got[0].count == 1);
  CHECK(got[1].count == 0);
  CHECK(diagnostics_of(got[1]).ess == 0);
  CHECK(got[2].count == 2);
  CHECK_THROWS_AS(sums_by_class(surrogate_with("clip"), tokens, {0, 2, 2}, 2), InvariantError);
}

TEST_CASE("class_sums: steps become means by their tokens; a step without tokens changes nothing") {
  ClassDiagnostics figures;
  figures.add_step({.count = 1, .k3 = 0.5, .clipped = 1, .dead = 0, .ratio = 2, .ratio_squared = 4});
  figures.add_step({});
  figures.add_step({.count = 3, .k3 = 0.3, .clipped = 0, .dead = 3, .ratio = 3, .ratio_squared = 6});
  CHECK(figures.count == 4);
  CHECK(figures.kl == doctest::Approx((0.5 + 3 * 0.1) / 4));
  CHECK(figures.clip_fraction == 0.25);
  CHECK(figures.dead_gradient_fraction == 0.75);
  CHECK(figures.ess == doctest::Approx((1 + 3 * 0.5) / 4));
}
