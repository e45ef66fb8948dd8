#include "tools/cli/metrics_reference.h"

#include <array>
#include <string_view>

#include "models/learning/metrics.h"
#include "runtime/stats/alarms.h"
#include "runtime/stats/snapshot_fields.h"
#include "tools/cli/markdown.h"

namespace troupe {
namespace {

constexpr std::string_view kMetricsIntroduction = R"(# Metrics

Every figure that a run reports. Read this page to look one up; [reading_a_run.md](reading_a_run.md) explains how to judge the figures and
what to do about them. This page is the output of `troupe metrics --markdown`, and a test compares the two: after a change, generate it
again.

- The figures are in the lines of `metrics.jsonl` in the [run folder](run_folder.md), in the `stats` messages of the
  [statistics port](protocol.md), and in TensorBoard. A dot is a level of the JSON: `lag.p95` is `{"lag": {"p95": 1}}`. In TensorBoard a tag
  has `/` in its place: `lag/p95`.
- "Reported" says when a figure has a value. Before that it is `null`, or absent if its name begins with `learner.`. Numbers that are not
  finite are `null` too. TensorBoard has only finite numbers.
- All figures of a line are of one moment. [The points of the curves](run_folder.md#the-points-of-the-curves) says when lines are written.
- In a [token run](tokens.md) an answer is an episode of one env step: `env_steps` and `episodes.count` count answers, returns are rewards,
  success is a right answer, lengths are in tokens, and the times of `inference` are those of one step of all answers in progress.
)";

constexpr std::string_view kUpdates = R"(
## Metrics of the updates

These cover all updates since the line or message before. "Several updates" says how their values become one figure; values that are not
finite are left out, except from the newest. Without an update since, the figures are repeated.

A token is a sample with `algorithm.ratio` `joint`, the default, and one component of its action with `per_dimension`; in token runs it is a
token of an answer. r is the importance ratio of a token: its probability under the trained policy divided by that under the old policy. The
old policy is the one that acted; with `algorithm.rollout_correction` it is the policy at the start of the update. A is the advantage.
[algorithms/metrics.md](algorithms/metrics.md) has the formulas, and the names that the Python functions use.
)";

constexpr std::string_view kAlarms = R"(
## List of alarms

A run watches its own figures and raises an alarm when one of these conditions has held for long enough: the first ones are checked after
each update, those from `receiver_behind` on with each report. It is lowered when the condition has not held for as many updates or reports,
and at least 5; for twice as many each time that the same alarm was raised before, so that a figure at its limit does not fill the log.
Alarms are in the log, in the console, on the [dashboard](dashboard.md), and in the figures `alarms` and `alarm_texts`. They change nothing
in the run, unless `stop.on_collapse` is set: then one of level `error` ends it, but not `disk_fails`, which is checked apart from the
figures, with each report. [reading_a_run.md](reading_a_run.md#alarms-that-act) says how to run a command for each. The bottleneck is not an
alarm: [reading_a_run.md](reading_a_run.md) explains its verdict.

| alarm | level | condition | for | what to do |
| --- | --- | --- | --- | --- |
)";

struct GroupText {
  std::string_view group, text;
};

constexpr std::array kGroupTexts = {
    GroupText{"Policy lag", "[How to read it](reading_a_run.md#policy-lag)."},
    GroupText{"Sample ledger",
              "What happened to every sample. [How to read it](reading_a_run.md#sample-ledger), and\n"
              "[why some samples may be in no count](run_folder.md#samples-that-nobody-counted)."},
    GroupText{"Shares of time", "Of the actors' time; waiting is the rest."},
    GroupText{"Alarms", "[What raises them](#list-of-alarms)."},
    GroupText{
        "Stages",
        "Where the time goes: what took so many seconds of an update, a mean over the updates of the last 10 s, or "
        "of the last one. From\n`stages.prepare` to `stages.publish` they add up to the time of an update. The last "
        "two are means over the last 10 s too."},
    GroupText{"Actors", "Of all actors in the trainer's process, by kind; [what they do](architecture.md#the-actors)."},
    GroupText{
        "Histograms",
        "Of all values since the start of the process (deterministic runs: of the run). Each is an object: `le` has "
        "the "
        "upper bounds of the\nbuckets that are not empty, `count` how many values are in each, `sum` the sum of all "
        "values, `p50` and `p99` the bounds of the buckets\nwith the median and the 99th percentile. Bounds grow by a "
        "factor of 2^(1/4), so a percentile is at most 19 % too high. A bound that is\n`null` has no limit. In "
        "`/metrics` buckets end at powers of 2, and each counts also the values of those before it."},
    GroupText{"Inference", "[What to do about the batches](reading_a_run.md#sampling)."},
    GroupText{"Advantages and value targets",
              "Of all samples of the super-batch. Absent if an update finds nothing to train on."},
    GroupText{"Losses and the policy",
              "Means over the optimizer steps of an update's last epoch; `ratio_max` and `ratio_min` are extremes.\n"
              "Absent if no step of that epoch was applied."},
    GroupText{
        "Losses and the policy, by lag",
        "The same figures of the tokens with one policy lag: the updates from the policy that acted to the one at "
        "the start of the update.\n[What staleness costs](reading_a_run.md#what-staleness-costs). The last entry "
        "of each has all greater lags."},
    GroupText{
        "Rollout and training",
        "How far the policy at the start of an update is from those that sampled its tokens. Of all tokens of the "
        "super-batch where the start of an\nupdate computes their log-probabilities anyway (`vtrace`, "
        "`optimal_token_baseline`, `algorithm.rollout_correction`), else of those of its\nfirst optimizer step: "
        "[how to read it](tokens.md#lag)."},
    GroupText{"Rollout correction",
              "Of all samples of the super-batch. l is the log-probability of a token under the policy at the start of "
              "the update, minus that under the\npolicy that acted. [corrections.md](algorithms/corrections.md) "
              "explains the weights and the rejected tokens."},
};

void begin_group(std::string& page, std::string_view level, std::string_view group, std::string_view columns,
                 std::string_view rule) {
  page += '\n' + std::string(level) + ' ' + std::string(group) + '\n';
  for (const GroupText& each : kGroupTexts)
    if (each.group == group) page += '\n' + std::string(each.text) + '\n';
  page += '\n' + std::string(columns) + '\n' + std::string(rule) + '\n';
}

void add_fields(std::string& page) {
  std::string_view group;
  for (const SnapshotField& field : snapshot_fields()) {
    if (field.group != group)
      begin_group(page, "##", field.group, "| name | unit | reported | meaning |", "| --- | --- | --- | --- |");
    group = field.group;
    page += "| " + code(field.path) + " | " + cell(field.unit) + " | " + cell(field.when) + " | " +
            cell(field.meaning) + " |\n";
  }
}

const char* text_of(Summary summary) {
  switch (summary) {
    case Summary::mean: return "mean";
    case Summary::share: return "mean, with 0 for updates without it";
    case Summary::last: return "newest";
    case Summary::sum: return "sum";
    case Summary::smallest: return "smallest";
    case Summary::largest: return "largest";
  }
  return "mean";
}

void add_updates(std::string& page) {
  page += kUpdates;
  std::string_view group;
  for (const Metric& metric : metric_table()) {
    if (metric.group != group)
      begin_group(page, "###", metric.group, "| name | unit | several updates | reported | meaning |",
                  "| --- | --- | --- | --- | --- |");
    group = metric.group;
    page += "| " + code("learner." + std::string(metric.name)) + " | " + cell(metric.unit) + " | " +
            text_of(metric.summary) + " | " + cell(metric.when) + " | " + cell(metric.meaning) + " |\n";
  }
}

void add_alarms(std::string& page) {
  page += kAlarms;
  for (const AlarmRule& rule : alarm_rules())
    page += "| " + code(rule.name) + " | " + std::string(text_of(rule.level)) + " | " + cell(rule.condition) + " | " +
            std::to_string(rule.hold) + " | " + cell(advice_of(rule, /*token_run=*/false)) +
            (rule.in_token_runs.empty() ? "" : ". In token runs: " + cell(advice_of(rule, /*token_run=*/true))) +
            " |\n";
}

}  // namespace

std::string metrics_reference() {
  std::string page(kMetricsIntroduction);
  add_fields(page);
  add_updates(page);
  add_alarms(page);
  return page;
}

}  // namespace troupe
