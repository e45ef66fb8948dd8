#include "models/experience/rollout_units.h"

#include <algorithm>
#include <limits>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

void add_sample(uint64_t oldest, uint64_t newest, RolloutUnit& unit) {
  unit.oldest = unit.samples == 0 ? oldest : std::min(unit.oldest, oldest);
  unit.newest = std::max(unit.newest, newest);
  ++unit.samples;
}

// Steps that are not valid add nothing.
void add_step(const Grid& grid, int64_t step, RolloutUnit& unit) {
  if (grid.valid.view<uint8_t>()[static_cast<size_t>(step)] == 0) return;
  const auto version = static_cast<uint64_t>(grid.version.view<int64_t>()[static_cast<size_t>(step)]);
  add_sample(version, version, unit);
}

// One unit per prompt.
std::vector<RolloutUnit> units_of_body(const Answers& answers, UnitKind kind) {
  TROUPE_CHECK(kind == UnitKind::group, static_cast<int>(kind));
  std::vector<RolloutUnit> result(static_cast<size_t>(answers.groups()));
  const auto group = answers.group.view<int32_t>();
  const auto offsets = answers.sampled.offsets.view<int64_t>(), version = answers.sampled.version.view<int64_t>();
  for (size_t i = 0; i < result.size(); ++i) result[i].index = static_cast<int32_t>(i);
  for (size_t a = 0; a < group.size(); ++a) {
    const auto tokens =
        version.subspan(static_cast<size_t>(offsets[a]), static_cast<size_t>(offsets[a + 1] - offsets[a]));
    const auto [oldest, newest] = std::ranges::minmax(tokens);
    add_sample(static_cast<uint64_t>(oldest), static_cast<uint64_t>(newest), result[static_cast<size_t>(group[a])]);
  }
  std::erase_if(result, [](const RolloutUnit& unit) { return unit.samples == 0; });
  return result;
}

std::vector<RolloutUnit> units_of_body(const Grid& grid, UnitKind kind) {
  TROUPE_CHECK(kind != UnitKind::group, "steps of environments have no groups");
  const int64_t steps = grid.steps(), columns = grid.columns();
  TROUPE_CHECK(steps * columns <= std::numeric_limits<int32_t>::max(), steps, columns);
  std::vector<RolloutUnit> result(static_cast<size_t>(kind == UnitKind::column ? columns : steps * columns));
  for (size_t i = 0; i < result.size(); ++i) result[i].index = static_cast<int32_t>(i);
  for (int64_t step = 0; step < steps * columns; ++step)
    add_step(grid, step, result[static_cast<size_t>(kind == UnitKind::column ? step % columns : step)]);
  std::erase_if(result, [](const RolloutUnit& unit) { return unit.samples == 0; });
  return result;
}

}  // namespace

std::vector<RolloutUnit> units_of(const Rollout& rollout, UnitKind kind) {
  return std::visit([&](const auto& body) { return units_of_body(body, kind); }, rollout.body);
}

std::vector<int64_t> steps_of(const RolloutUnits& selection) {
  TROUPE_CHECK(selection.kind != UnitKind::group, "groups have no steps");
  const Grid& grid = selection.rollout->grid();
  const int64_t steps = grid.steps(), columns = grid.columns();
  const bool whole_columns = selection.kind == UnitKind::column;
  for (const int32_t index : selection.indices)
    TROUPE_CHECK(index >= 0 && index < (whole_columns ? columns : steps * columns), index, steps, columns);
  if (!whole_columns) return {selection.indices.begin(), selection.indices.end()};
  std::vector<int64_t> result;
  result.reserve(static_cast<size_t>(steps) * selection.indices.size());
  for (int64_t t = 0; t < steps; ++t)
    for (const int32_t column : selection.indices) result.push_back(t * columns + column);
  return result;
}

UnitKind unit_kind(std::string_view draw) {
  TROUPE_CHECK(draw == "column" || draw == "sample", draw);
  return draw == "column" ? UnitKind::column : UnitKind::sample;
}

}  // namespace troupe
