// `troupe metrics`: lists the figures of a run with their meanings.

#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "models/learning/run_figures.h"
#include "runtime/base/errors.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "tools/cli/command.h"
#include "tools/cli/command_help.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/metrics_reference.h"

namespace troupe {
namespace {

struct MetricsOptions {
  std::string name;  // only metrics whose name contains this; empty = all
  bool markdown = false;
  bool json = false;
};

MetricsOptions read_metrics(Flags& flags) {
  MetricsOptions options;
  flags.optional_argument("NAME", options.name, any_text, "print only the metrics whose name contains this");
  flags.toggle("--markdown", options.markdown, "print a page about all metrics, in Markdown");
  flags.toggle("--json", options.json,
               "print the table of the metrics as JSON: path, unit, type, labels, meaning, ...");
  flags.read();
  if (flags.given("NAME") && options.markdown) flags.refuse("--markdown: prints all metrics; leave out NAME");
  if (options.json && options.markdown) flags.refuse("--markdown: not together with --json");
  return options;
}

std::string unknown_metric(const std::string& name) {
  std::vector<std::string> names;
  for (const Figure& figure : run_figures()) names.push_back(figure.path);
  const std::string near = closest(name, names);
  return printable(name) + ": no metric has this in its name, " +
         (near.empty() ? "`troupe metrics` lists them" : "did you mean " + near + '?');
}

void print_metrics(const MetricsOptions& options) {
  if (options.markdown) {
    std::cout << metrics_reference();
    return;
  }
  std::vector<Figure> figures;
  for (const Figure& figure : run_figures())
    if (figure.path.find(options.name) != std::string::npos) figures.push_back(figure);
  if (figures.empty()) throw ConfigError(unknown_metric(options.name));
  if (options.json) {
    std::cout << figures_json(figures) << '\n';
    return;
  }
  for (const Figure& figure : figures) {
    const std::string when = figure.when == "always" ? "" : " (reported " + figure.when + ')';
    std::cout << wrapped(figure.path + "  " + figure.unit, figure.meaning + when, 4, kListColumns);
  }
}

}  // namespace

Command metrics_command() {
  return {.name = "metrics",
          .summary = "list the metrics of a run: unit and meaning of each",
          .examples =
              "  troupe metrics\n"
              "  troupe metrics lag\n"
              "  troupe metrics learner.kl\n"
              "  troupe metrics --json > figures.json\n"
              "  troupe metrics --markdown > metrics.md\n",
          .exit_codes = {{0, "the metrics were listed"},
                         {1, "the output could not be written"},
                         {2, "a mistake in the command, such as a name that no metric has"}},
          .parse = read_then_run<read_metrics, print_metrics>};
}

}  // namespace troupe
