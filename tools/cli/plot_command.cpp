// `troupe plot`: draws figures of runs as curves, on the terminal or as a picture.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <map>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tools/cli/character_plot.h"
#include "tools/cli/command.h"
#include "tools/cli/figure_names.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/gnuplot_picture.h"
#include "tools/cli/output_file.h"
#include "tools/cli/run_curves.h"
#include "tools/cli/terminal.h"

namespace troupe {
namespace {

// An axis that --x names.
struct PlotAxis {
  std::string_view name, figure, label;
};

constexpr std::array kAxes = {PlotAxis{"env_steps", "env_steps", "env steps"},
                              PlotAxis{"updates", "updates", "updates"},
                              PlotAxis{"seconds", "elapsed_seconds", "seconds"}};

struct PictureEnding {
  std::string_view ending;
  PictureKind kind;
  std::string_view begins;  // such a file
};

constexpr std::array kEndings = {PictureEnding{".svg", PictureKind::svg, "<?xml"},
                                 PictureEnding{".png", PictureKind::png, "\x89PNG"},
                                 PictureEnding{".pdf", PictureKind::pdf, "%PDF"}};

struct PlotOptions {
  Words runs;
  std::string output, x = "env_steps", group;
  Words y;
};

std::string parse_axis(std::string_view flag, const std::string& text) {
  if (std::ranges::count(kAxes, text, &PlotAxis::name) > 0) return text;
  refuse_flag(flag, '"' + printable(text) + "\" is no axis, expected env_steps, updates or seconds");
}

const PictureEnding* ending_of(const std::string& file) {
  const auto found = std::ranges::find_if(kEndings, [&](const auto& each) { return file.ends_with(each.ending); });
  return found == kEndings.end() ? nullptr : &*found;
}

std::string parse_picture(std::string_view, const std::string& text) {
  if (ending_of(text) == nullptr)
    refuse_flag("--output", "\"" + printable(text, 200) + "\": expected a name that ends with .svg, .png or .pdf");
  return text;
}

PlotOptions read_plot(Flags& flags) {
  PlotOptions options;
  flags.required_arguments("RUN...", options.runs, "folders of runs, or folders that hold such folders");
  flags.option(
      "-o,--output", kFileType, options.output, parse_picture,
      "write a picture instead of a plot of characters: a file that ends with .svg, .png or .pdf; needs gnuplot");
  flags.option("--x", "AXIS", options.x, parse_axis, "env_steps, updates or seconds (default: env_steps)");
  flags.repeatable("--y", "FIGURE", options.y,
                   "a figure that `troupe metrics` lists; repeatable, one panel for each (default: "
                   "episodes.return_mean)");
  flags.option("--group", "SETTING", options.group, any_text,
               "join the runs with the same value of this setting into one curve (default: those whose configs differ "
               "in the seed alone)");
  flags.read();
  for (const std::string& folder : options.runs) path_to(kRunFolder)("RUN", folder);
  for (const std::string& figure : options.y) parse_figure("--y", figure);
  if (options.y.empty()) options.y = {"episodes.return_mean"};
  return options;
}

// The curves of one run, one for each figure.
std::vector<RunCurve> curves_of(const RunOverview& run, const PlotAxis& axis, const Words& figures) {
  Words wanted = figures;
  wanted.emplace_back(axis.figure);
  const FigureColumns columns = read_figures(posix_disk(), run.folder, wanted);
  std::vector<RunCurve> curves;
  for (size_t i = 0; i < figures.size(); ++i) curves.push_back(curve_of(columns.values.back(), columns.values[i]));
  return curves;
}

// Which task each of the runs has, as a number.
std::vector<size_t> tasks_of(const std::vector<RunOverview>& runs, const std::vector<size_t>& members) {
  std::map<std::string, size_t> numbers;
  std::vector<size_t> tasks;
  for (const size_t i : members) tasks.push_back(numbers.try_emplace(runs[i].task, numbers.size()).first->second);
  return tasks;
}

// Says on stderr which runs end so early that the curve of their group is much shorter than those of the others.
void report_short(const GroupCurve& group, const std::vector<RunOverview>& runs, const std::vector<RunCurve>& curves,
                  const std::vector<size_t>& members, const PlotAxis& axis) {
  constexpr double kShort = 0.9;
  double longest = 0;
  for (const RunCurve& curve : curves) longest = std::max(longest, curve.x.back());
  for (size_t i = 0; i < members.size(); ++i)
    if (curves[i].x.back() < kShort * longest)
      print_error("troupe: " + runs[members[i]].folder + ": ends at " + format_compact_figure(curves[i].x.back()) +
                  ' ' + std::string(axis.label) + ", and with it the curve of " + group.label);
}

PlotPanel panel_of(const std::vector<RunOverview>& runs, const std::vector<RunGroup>& groups,
                   const std::vector<std::vector<RunCurve>>& curves, size_t figure, const std::string& name,
                   const PlotAxis& axis) {
  PlotPanel panel{std::string(axis.label), name, {}};
  for (const RunGroup& group : groups) {
    std::vector<RunCurve> of_group;
    std::vector<size_t> members;
    for (const size_t run : group.runs) {
      if (curves[run].empty() || curves[run][figure].x.empty()) {
        print_error("troupe: " + runs[run].folder + ": no record has both " + name + " and " +
                    std::string(axis.figure));
        continue;
      }
      members.push_back(run);
      of_group.push_back(curves[run][figure]);
    }
    if (members.empty()) continue;
    GroupCurve curve = group_curve(of_group, tasks_of(runs, members));
    curve.label = group.label;
    report_short(curve, runs, of_group, members, axis);
    if (!curve.x.empty()) panel.curves.push_back(std::move(curve));
  }
  if (panel.curves.empty())
    throw ConfigError("--y: " + name + ": no run has a curve of it over " + std::string(axis.figure));
  return panel;
}

std::vector<PlotPanel> panels_of(const PlotOptions& options) {
  const PlotAxis& axis = *std::ranges::find(kAxes, options.x, &PlotAxis::name);
  const FoundRuns found = find_runs(options.runs);
  print_problems(found.problems);
  const std::vector<RunGroup> groups = group_runs(found.runs, options.group);
  std::vector<std::vector<RunCurve>> curves(found.runs.size());
  for (size_t i = 0; i < found.runs.size(); ++i) {
    try {
      curves[i] = curves_of(found.runs[i], axis, options.y);
    } catch (const IoError& error) {
      print_error("troupe: " + std::string(error.what()));
    }
  }
  std::vector<PlotPanel> panels;
  for (size_t i = 0; i < options.y.size(); ++i)
    panels.push_back(panel_of(found.runs, groups, curves, i, options.y[i], axis));
  return panels;
}

void write_picture(const std::vector<PlotPanel>& panels, const std::string& file) {
  const PictureEnding& ending = *ending_of(file);
  const std::string picture = gnuplot_picture(panels, ending.kind);
  try {
    posix_disk().write_atomic(file, picture);
  } catch (const IoError& refused) {
    throw ConfigError("--output: " + std::string(refused.what()));
  }
  print_line(file + ": " + format_counted(panels.size(), "panel"));
}

void print_plots(const std::vector<PlotPanel>& panels) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const char* no_colour = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  const bool colours = terminal && (no_colour == nullptr || *no_colour == '\0');
  const TerminalSize size = terminal ? terminal_size() : TerminalSize{};
  for (const PlotPanel& panel : panels) {
    const bool apart = colours || panel.curves.size() == 1;
    const PlotCharacters characters = !takes_utf8() ? PlotCharacters::ascii
                                      : apart       ? PlotCharacters::braille
                                                    : PlotCharacters::symbols;
    std::cout << character_plot(panel, {size.columns, size.drawable_rows() + 1, characters, colours});
  }
}

void plot_runs(const PlotOptions& options) {
  if (!options.output.empty()) {
    const std::string_view begins = ending_of(options.output)->begins;
    require_replaceable("--output", options.output, {"a picture of its kind", [begins](std::string_view line) {
                                                       return line.starts_with(begins);
                                                     }});
  }
  const std::vector<PlotPanel> panels = panels_of(options);
  if (options.output.empty())
    print_plots(panels);
  else
    write_picture(panels, options.output);
}

}  // namespace

Command plot_command() {
  return {.name = "plot",
          .summary = "draw figures of runs as curves, seeds joined with their intervals",
          .examples =
              "  troupe plot runs/cartpole\n"
              "  troupe plot runs/sweep -o sweep.svg\n"
              "  troupe plot runs/a runs/b --x seconds --y eval.return_mean -o two.pdf\n"
              "  troupe plot runs/a --y learner.kl --y learner.entropy\n"
              "  troupe plot runs/sweep --group trainer.policy_lr -o rates.png\n",
          .exit_codes = {{0, "the plot is complete; runs that it leaves out are named on stderr"},
                         {1, "the output could not be written"},
                         {2,
                          "a mistake in the command, no run with such a curve, a file that cannot be written, or no "
                          "gnuplot"}},
          .parse = read_then_run<read_plot, plot_runs>};
}

}  // namespace troupe
