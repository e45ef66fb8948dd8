// `troupe metrics`: lists the figures of a run with their meanings.

#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "models/learning/metrics.h"
#include "runtime/base/errors.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "runtime/stats/snapshot_fields.h"
#include "tools/cli/command.h"
#include "tools/cli/command_help.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/metrics_reference.h"

namespace troupe {
namespace {

struct MetricsOptions {
  std::string name;  // only metrics whose name contains this; empty = all
  bool markdown = false;
};

MetricsOptions read_metrics(Flags& flags) {
  MetricsOptions options;
  flags.optional_argument("NAME", options.name, any_text, "print only the metrics whose name contains this");
  flags.toggle("--markdown", options.markdown, "print a page about all metrics, in Markdown");
  flags.read();
  if (flags.given("NAME") && options.markdown) flags.refuse("--markdown: prints all metrics; leave out NAME");
  return options;
}

struct Entry {
  std::string name;
  std::string_view unit, when, meaning;
};

std::vector<Entry> all_metrics() {
  std::vector<Entry> entries;
  for (const SnapshotField& field : snapshot_fields())
    entries.push_back({std::string(field.path), field.unit, field.when, field.meaning});
  for (const Metric& metric : metric_table())
    entries.push_back({"learner." + std::string(metric.name), metric.unit, metric.when, metric.meaning});
  return entries;
}

std::string unknown_metric(const std::string& name, const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  const std::string near = closest(name, names);
  return printable(name) + ": no metric has this in its name, " +
         (near.empty() ? "`troupe metrics` lists them" : "did you mean " + near + '?');
}

void print_metrics(const MetricsOptions& options) {
  if (options.markdown) {
    std::cout << metrics_reference();
    return;
  }
  const std::vector<Entry> entries = all_metrics();
  bool found = false;
  for (const Entry& entry : entries) {
    if (entry.name.find(options.name) == std::string::npos) continue;
    found = true;
    std::string text(entry.meaning);
    if (entry.when != "always") text += " (reported " + std::string(entry.when) + ')';
    std::cout << wrapped(entry.name + "  " + std::string(entry.unit), text, 4, kListColumns);
  }
  if (!found) throw ConfigError(unknown_metric(options.name, entries));
}

}  // namespace

Command metrics_command() {
  return {.name = "metrics",
          .summary = "list the metrics of a run: unit and meaning of each",
          .examples =
              "  troupe metrics\n"
              "  troupe metrics lag\n"
              "  troupe metrics learner.kl\n"
              "  troupe metrics --markdown > metrics.md\n",
          .exit_codes = {{0, "the metrics were listed"},
                         {1, "the output could not be written"},
                         {2, "a mistake in the command, such as a name that no metric has"}},
          .parse = read_then_run<read_metrics, print_metrics>};
}

}  // namespace troupe
