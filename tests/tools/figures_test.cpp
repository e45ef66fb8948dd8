// The table of all figures of a run, which every view reads.
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "models/learning/metrics.h"
#include "models/learning/run_figures.h"
#include "runtime/stats/snapshot_fields.h"
#include "tests/support/test.h"
#include "tools/cli/exported_metrics.h"

using namespace troupe;
using nlohmann::json;

namespace {

const Figure& figure(std::string_view path) {
  const Figure* found = find_figure(path);
  REQUIRE_MESSAGE(found != nullptr, path);
  return *found;
}

}  // namespace

TEST_CASE("figures: the table has every field of a snapshot and every metric of an update once") {
  std::set<std::string> expected, listed;
  for (const SnapshotField& field : snapshot_fields())
    if (field.path != "learner") expected.emplace(field.path);
  for (const Metric& metric : metric_table()) expected.insert("learner." + std::string(metric.name));
  for (const Figure& each : run_figures()) CHECK_MESSAGE(listed.insert(each.path).second, each.path);
  CHECK(listed == expected);
}

TEST_CASE("figures: a figure is found by its path, and what is none is not") {
  CHECK(figure("lag.p95").unit == "updates");
  CHECK(figure("learner.kl").unit == "nats");
  for (const char* wrong : {"", "lag", "lag.", "lag.p955", "learner", "learner.", "kl"})
    CHECK(find_figure(wrong) == nullptr);
}

TEST_CASE("figures: the type follows from the unit and the name in Prometheus, or is given") {
  CHECK(figure("env_steps").type == FigureType::counter);
  CHECK(figure("ledger.trained").type == FigureType::counter);
  CHECK(figure("lag.p95").type == FigureType::gauge);
  CHECK(figure("busy.workers").type == FigureType::gauge);
  CHECK(figure("learner.kl").type == FigureType::gauge);
  CHECK(figure("last_error").type == FigureType::text);
  CHECK(figure("rows_served").type == FigureType::map);
  CHECK(figure("alarm_texts").type == FigureType::map);
  CHECK(make_figure("", "a", "a_seconds{le=*}", "s", "always", "times", {}).type == FigureType::histogram);
  CHECK(make_figure("", "a", "a_seconds{le=*}", "s", "always", "times", {}).labels.empty());
  CHECK(make_figure("", "a", "a_total", "s", "always", "times", {.type = FigureType::gauge}).type == FigureType::gauge);
}

TEST_CASE("figures: an object names what its keys are, and nothing else has labels") {
  CHECK(figure("rows_served").labels == std::vector<std::string>{"inference"});
  CHECK(figure("eval.pass_at").labels == std::vector<std::string>{"k"});
  for (const Figure& each : run_figures())
    if (each.type != FigureType::map) CHECK_MESSAGE(each.labels.empty(), each.path);
}

TEST_CASE("figures: the type is that of the values of a snapshot") {
  StatsSnapshot s;
  s.rows_served = {{"a", 1}};
  const json snapshot = json::parse(to_json(s));
  for (const Figure& each : run_figures()) {
    const size_t dot = each.path.find('.');
    const json outer = snapshot.value(each.path.substr(0, dot), json());
    const json value = dot == std::string::npos ? outer
                       : outer.is_object()      ? outer.value(each.path.substr(dot + 1), json())
                                                : json();
    if (value.is_null()) continue;
    CAPTURE(each.path);
    CHECK(value.is_object() == (each.type == FigureType::map || each.type == FigureType::histogram));
    CHECK(value.is_string() == (each.type == FigureType::text));
  }
}

TEST_CASE("figures: a figure that is a counter for Prometheus is one in the table") {
  for (const ExportedMetric& metric : exported_metrics())
    if (metric.label_value != "*")
      CHECK_MESSAGE((figure(metric.path).type == FigureType::counter) == metric.name.ends_with("_total"), metric.path);
}

TEST_CASE("figures: labels are short, differ within a heading, and are those of the kind of run") {
  std::set<std::string> seen, seen_of_tokens;
  for (const Figure& each : run_figures()) {
    CAPTURE(each.path);
    CHECK(!each.label.empty());
    CHECK(each.label.size() <= 48);
    CHECK(each.token_label.size() <= 48);
    CHECK(seen.insert(each.group + ": " + each.label).second);
    CHECK(seen_of_tokens.insert(each.group + ": " + each.token_label).second);
  }
  CHECK(figure("env_steps").label == "env steps");
  CHECK(figure("env_steps").token_label == "answers");
  CHECK(figure("episodes.return_mean").token_label == "reward");
  CHECK(figure("learner.balance_max_by_answers").label == "balance max by answers");
}

TEST_CASE("figures: it is known which direction is better") {
  CHECK(figure("episodes.return_mean").better == Better::up);
  CHECK(figure("lag.p95").better == Better::down);
  CHECK(figure("learner.entropy").better == Better::neither);
}

TEST_CASE("figures: as JSON each row has its members") {
  const json rows = json::parse(figures_json(run_figures()));
  REQUIRE(rows.size() == run_figures().size());
  const auto row = [&](const std::string& path) {
    for (const json& each : rows)
      if (each["path"] == path) return each;
    return json();
  };
  CHECK(row("rows_served")["labels"] == json{"inference"});
  CHECK(row("rows_served")["type"] == "map");
  CHECK(row("rows_served")["prometheus"] == "troupe_rows_served_total{inference=*}");
  CHECK(row("last_error")["prometheus"].is_null());
  CHECK(row("learner.kl")["prometheus"] == "troupe_learner_kl");
  CHECK(row("env_steps_per_second")["better"] == "up");
  CHECK(row("env_steps_per_second")["token_label"] == "answers/s");
  CHECK(row("env_steps_per_second")["reported"] == "not in deterministic runs");
  CHECK(json::parse(figures_json({})) == json::array());
}

TEST_CASE("figures: a number is written by its unit") {
  CHECK(figure_text(0.634, "0 to 1") == "63 %");
  CHECK(figure_text(1, "0 to 1, by k") == "100 %");
  CHECK(figure_text(3723, "s") == "1:02:03");
  CHECK(figure_text(182e6, "bytes") == "182 MB");
  CHECK(figure_text(1234567, "env steps") == "1,234,567");
  CHECK(figure_text(0, "updates") == "0");
  CHECK(figure_text(0.25, "rewards") == "0.2500");
  CHECK(figure_text(1e-5, "nats") == "1.0e-05");
  CHECK(figure_text(kUnknown, "bytes") == "-");
  CHECK(figure_text(-3, "rewards") == "-3.0000");
}

TEST_CASE("figures: large numbers have one form, with a fraction or without") {
  CHECK(figure_text(7344, "env steps/s") == "7,344");
  CHECK(figure_text(7343.6, "env steps/s") == "7,344");
  CHECK(figure_text(12.3e6, "env steps/s") == "12.3M");
  CHECK(figure_text(999.5, "rewards") == "999.5000");
}
