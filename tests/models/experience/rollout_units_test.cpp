#include "models/experience/rollout_units.h"

#include "runtime/base/errors.h"
#include "tests/actors/rollouts.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// 3 steps of 2 columns. Of column 0 only the last step is valid; column 1 has one masked step. Step i = t * N + n has
// version 10 - i.
RolloutPtr rollout_with_gaps() {
  auto rollout =
      std::make_shared<Rollout>(*make_rollout({.steps = 3, .columns = 2, .invalid = {{0, 0}, {1, 0}, {1, 1}}}));
  const auto versions = rollout->grid().version.mutable_view<int64_t>();
  for (size_t i = 0; i < versions.size(); ++i) versions[i] = 10 - static_cast<int64_t>(i);
  return rollout;
}

void check_unit(const RolloutUnit& unit, int32_t index, uint32_t samples, uint64_t oldest, uint64_t newest) {
  CHECK(unit.index == index);
  CHECK(unit.samples == samples);
  CHECK(unit.oldest == oldest);
  CHECK(unit.newest == newest);
}

}  // namespace

TEST_CASE("rollout_units: a column contains its valid steps, a sample is one valid step") {
  const RolloutPtr rollout = rollout_with_gaps();
  const auto columns = units_of(*rollout, UnitKind::column);
  REQUIRE(columns.size() == 2);
  check_unit(columns[0], 0, 1, 6, 6);  // step 4, of version 6
  check_unit(columns[1], 1, 2, 5, 9);  // steps 1 and 5
  const auto samples = units_of(*rollout, UnitKind::sample);
  REQUIRE(samples.size() == 3);
  check_unit(samples[0], 1, 1, 9, 9);
  check_unit(samples[1], 4, 1, 6, 6);
  check_unit(samples[2], 5, 1, 5, 5);
}

TEST_CASE("rollout_units: a rollout without a valid step has no units, one with a single valid step has one") {
  for (const UnitKind kind : {UnitKind::column, UnitKind::sample}) {
    CHECK(units_of(*make_rollout({.steps = 1, .columns = 1, .invalid = {{0, 0}}}), kind).empty());
    const auto one = units_of(*make_rollout({.steps = 1, .columns = 1, .version = {0, 3}}), kind);
    REQUIRE(one.size() == 1);
    check_unit(one[0], 0, 1, 3, 3);
  }
}

TEST_CASE("rollout_units: the steps of columns are in order of time, and the step of a sample is its index") {
  const RolloutPtr rollout = make_rollout({.steps = 3, .columns = 4});
  CHECK(steps_of({rollout, {1, 3}}) == std::vector<int64_t>{1, 3, 5, 7, 9, 11});
  CHECK(steps_of({rollout, {1, 3}, UnitKind::sample}) == std::vector<int64_t>{1, 3});
  CHECK(steps_of({rollout, {}}).empty());
  for (const int32_t wrong : {-1, 4}) CHECK_THROWS_AS(steps_of({rollout, {wrong}}), InvariantError);
  CHECK(steps_of({rollout, {11}, UnitKind::sample}) == std::vector<int64_t>{11});
  for (const int32_t wrong : {-1, 12}) CHECK_THROWS_AS(steps_of({rollout, {wrong}, UnitKind::sample}), InvariantError);
}

TEST_CASE("rollout_units: a group is the answers to a prompt, and has the versions of its oldest and newest token") {
  const auto rollout = random_answers(6, 20, 8);
  const Answers& answers = rollout->answers();
  const auto groups = units_of(*rollout, UnitKind::group);
  REQUIRE(groups.size() == 6);
  const auto group = answers.group.view<int32_t>();
  const auto offsets = answers.sampled.offsets.view<int64_t>(), version = answers.sampled.version.view<int64_t>();
  for (int32_t g = 0; g < 6; ++g) {
    uint32_t samples = 0;
    int64_t oldest = 100, newest = 0;
    for (size_t a = 0; a < group.size(); ++a) {
      if (group[a] != g) continue;
      ++samples;
      for (int64_t t = offsets[a]; t < offsets[a + 1]; ++t) {
        oldest = std::min(oldest, version[static_cast<size_t>(t)]);
        newest = std::max(newest, version[static_cast<size_t>(t)]);
      }
    }
    check_unit(groups[static_cast<size_t>(g)], g, samples, static_cast<uint64_t>(oldest),
               static_cast<uint64_t>(newest));
  }
  CHECK_THROWS_AS(steps_of({rollout, {0}, UnitKind::group}), InvariantError);
}
