#include "runtime/stats/prometheus.h"

#include <memory>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/stats/snapshot.h"
#include "runtime/stats/snapshot_fields.h"
#include "tests/support/exported_fields.h"
#include "tests/support/test.h"

using namespace troupe;
using nlohmann::json;

TEST_CASE("prometheus: counters, gauges, labels and units") {
  const std::vector<ExportedMetric> metrics = {
      exported_metric("steps", "steps_total", "env steps", "steps\nof \\ \"all\""),
      exported_metric("a.b", "wait_seconds", "ms", "waiting"),
      exported_metric("served", "served_total{actor=*}", "rows", "rows"),
      exported_metric("up", "up", "true or false", "whether"),
      exported_metric("none", "none", "", "null"),
      exported_metric("absent.x", "absent", "", "absent"),
  };
  const json snapshot = json::parse(
      R"({"steps":12345678901,"a":{"b":2.5},"served":{"a \"b\" \\ c\nd":3,"e":4},"up":true,"none":null,"absent":7})");
  CHECK(prometheus_text(snapshot, metrics, false) ==
        "# HELP troupe_steps_total steps\\nof \\\\ \"all\"\n# TYPE troupe_steps_total counter\n"
        "troupe_steps_total 12345678901\n"
        "# HELP troupe_wait_seconds waiting\n# TYPE troupe_wait_seconds gauge\ntroupe_wait_seconds 0.0025\n"
        "# HELP troupe_served_total rows\n# TYPE troupe_served_total counter\n"
        "troupe_served_total{actor=\"a \\\"b\\\" \\\\ c\\nd\"} 3\ntroupe_served_total{actor=\"e\"} 4\n"
        "# HELP troupe_up whether\n# TYPE troupe_up gauge\ntroupe_up 1\n");
  const std::string open = prometheus_text(snapshot, metrics, true);
  CHECK(
      open.starts_with("# HELP troupe_steps steps\\nof \\\\ \\\"all\\\"\n# TYPE troupe_steps counter\n"
                       "troupe_steps_total 12345678901\n"));
  CHECK(open.ends_with("troupe_up 1\n# EOF\n"));
  CHECK(prometheus_text(json(), metrics, false).empty());
  CHECK_THROWS_AS(exported_metric("a", "a-b", "", ""), InvariantError);
}

TEST_CASE("prometheus: every number of a snapshot is there once") {
  const auto snapshot = std::make_unique<StatsSnapshot>();  // on the stack GCC 12 warns of what it does not destroy
  snapshot->evaluation.emplace(EvaluationResult{.updates = 1, .episodes = 2});
  const std::vector<ExportedMetric> metrics = test::exported_snapshot_fields();
  const std::string text = prometheus_text(json::parse(to_json(*snapshot)), metrics, false);
  std::set<std::string> names, samples;
  for (const SnapshotField& field : snapshot_fields())
    if (!field.prometheus.empty()) CHECK(names.insert(std::string(field.prometheus)).second);
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const std::string line = text.substr(begin, text.find('\n', begin) - begin);
    if (line.starts_with("# HELP ")) CHECK(samples.insert(line.substr(0, line.find(' ', 7))).second);
  }
  CHECK(text.find("troupe_env_steps_total 0\n") != std::string::npos);
  CHECK(text.find("troupe_samples_total{state=\"trained\"} 0\n") != std::string::npos);
}
