// docs/metrics.md is current, and has every figure of a run.
#include "tools/cli/metrics_reference.h"

#include <set>
#include <string>

#include "models/learning/metrics.h"
#include "runtime/stats/snapshot_fields.h"
#include "tests/support/test.h"
#include "tests/tools/generated_page.h"

using namespace troupe;

TEST_CASE("metrics reference: docs/metrics.md is current") {
  test::check_page("docs/metrics.md", metrics_reference(), "metrics --markdown");
}

TEST_CASE("metrics reference: it has one row for every field of a snapshot and every metric of an update") {
  const std::string page = metrics_reference();
  std::set<std::string> names;
  for (const SnapshotField& field : snapshot_fields()) CHECK(names.insert(std::string(field.path)).second);
  for (const Metric& metric : metric_table()) CHECK(names.insert("learner." + std::string(metric.name)).second);
  for (const std::string& name : names) {
    const std::string row = "\n| `" + name + "` | ";
    const size_t found = page.find(row);
    CHECK_MESSAGE(found != std::string::npos, name);
    CHECK_MESSAGE(page.find(row, found + 1) == std::string::npos, name);
  }
}

TEST_CASE("metrics reference: every metric has a unit and a meaning, and the metrics of a group are adjacent") {
  std::set<std::string_view> groups;
  std::string_view group;
  const auto check = [&](std::string_view name, std::string_view of, std::string_view unit, std::string_view when,
                         std::string_view meaning) {
    CHECK_MESSAGE(!unit.empty(), name);
    CHECK_MESSAGE(!when.empty(), name);
    CHECK_MESSAGE(meaning.size() > 10, name);
    if (of != group) CHECK_MESSAGE(groups.insert(of).second, of);
    group = of;
  };
  for (const SnapshotField& f : snapshot_fields()) check(f.path, f.group, f.unit, f.when, f.meaning);
  for (const Metric& m : metric_table()) check(m.name, m.group, m.unit, m.when, m.meaning);
}
