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
#include "tools/cli/run_groups.h"
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
  std::string output, x = "env_steps", title;
  Words y, group;
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
                   "a figure that `troupe metrics` lists; repeatable, one panel for each, and for each environment or "
                   "task (default: episodes.return_mean)");
  flags.repeatable("--group", "SETTING", options.group,
                   "join the runs with the same value of this setting into one curve; repeatable, for combinations of "
                   "values (default: those whose configs differ in the seed alone)");
  flags.option("--title", "TEXT", options.title, any_text, "line above the picture");
  flags.read();
  for (const std::string& folder : options.runs) path_to(kRunFolder)("RUN", folder);
  for (const std::string& figure : options.y) parse_figure("--y", figure);
  if (options.y.empty()) options.y = {"episodes.return_mean"};
  if (!options.title.empty() && options.output.empty())
    flags.refuse("--title: has no effect without --output, which writes a picture; leave it out");
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

// What the panels are drawn from.
struct PlottedRuns {
  std::vector<RunOverview> runs;
  Words grouped_by;
  std::vector<RunGroup> groups;
  std::vector<std::vector<RunCurve>> curves;  // [runs, figures]; of a run without records there are none
  PlotAxis axis;
  Words remarks;  // what cannot be read
};

// The runs of a group that have the figure of a panel, with their curves.
struct DrawnGroup {
  std::string label;  // among those of the panel
  std::vector<size_t> members;
  std::vector<RunCurve> curves;
};

// Names the runs that end before 0.9 of the longest one of their group, because the curve of the group ends with the
// shortest.
void report_short(const PlottedRuns& plotted, const DrawnGroup& group, Words& remarks) {
  constexpr double kShort = 0.9;
  double longest = 0;
  for (const RunCurve& curve : group.curves) longest = std::max(longest, curve.x.back());
  for (size_t i = 0; i < group.members.size(); ++i)
    if (group.curves[i].x.back() < kShort * longest)
      remarks.push_back(plotted.runs[group.members[i]].folder + ": ends at " +
                        format_compact_figure(group.curves[i].x.back()) + ' ' + std::string(plotted.axis.label) +
                        ", and with it the curve of " + group.label);
}

// Those groups that have runs with the figure: of a task or, without one, of all.
std::vector<DrawnGroup> drawn_groups(const PlottedRuns& plotted, size_t figure, const std::string& name,
                                     const std::string* task, Words& remarks) {
  std::vector<DrawnGroup> drawn;
  std::vector<const RunGroup*> groups;
  for (const RunGroup& group : plotted.groups) {
    DrawnGroup each;
    for (const size_t run : group.runs) {
      if (task != nullptr && plotted.runs[run].task != *task) continue;
      const std::vector<RunCurve>& of_run = plotted.curves[run];
      if (of_run.empty()) continue;  // cannot be read, which is a remark already
      if (of_run[figure].x.empty()) {
        remarks.push_back(plotted.runs[run].folder + ": no record has both " + name + " and " +
                          std::string(plotted.axis.figure));
        continue;
      }
      each.members.push_back(run);
      each.curves.push_back(of_run[figure]);
    }
    if (each.members.empty()) continue;
    drawn.push_back(std::move(each));
    groups.push_back(&group);
  }
  const Words labels = labels_among(groups);
  for (size_t i = 0; i < drawn.size(); ++i) drawn[i].label = labels[i];
  return drawn;
}

// Whether all runs have one point: then the x of the points says nothing, and the groups stand beside each other.
bool are_points(const std::vector<DrawnGroup>& groups) {
  size_t runs = 0;
  for (const DrawnGroup& group : groups) {
    runs += group.curves.size();
    if (std::ranges::any_of(group.curves, [](const RunCurve& curve) { return curve.x.size() > 1; })) return false;
  }
  return runs > 1;
}

// What --group has joined; empty if it is not given.
std::string note_on(const PlottedRuns& plotted, const std::vector<DrawnGroup>& groups) {
  if (plotted.grouped_by.empty()) return "";
  std::vector<std::vector<size_t>> members;
  for (const DrawnGroup& group : groups) members.push_back(group.members);
  return mixed_settings_text(plotted.runs, members, plotted.grouped_by);
}

// The curves of one figure; none where no run has it.
PlotPanel panel_of(const PlottedRuns& plotted, size_t figure, const std::string& name, const std::string* task,
                   Words& remarks) {
  PlotPanel panel{std::string(plotted.axis.label), (task == nullptr ? "" : *task + ": ") + name, {}};
  const std::vector<DrawnGroup> groups = drawn_groups(plotted, figure, name, task, remarks);
  panel.categories = are_points(groups);
  panel.note = note_on(plotted, groups);
  for (const DrawnGroup& group : groups) {
    const std::vector<size_t> tasks = tasks_of(plotted.runs, group.members);
    GroupCurve curve = panel.categories ? group_point(group.curves, tasks, static_cast<double>(panel.curves.size()))
                                        : group_curve(group.curves, tasks);
    curve.label = group.label;
    if (!panel.categories) report_short(plotted, group, remarks);
    if (curve.x.empty())
      remarks.push_back(curve.label + ": its runs have no " + panel.x_label + " in common");
    else
      panel.curves.push_back(std::move(curve));
  }
  return panel;
}

PlottedRuns read_runs_to_plot(const PlotOptions& options) {
  FoundRuns found = find_runs(options.runs);
  print_problems(found.problems);
  PlottedRuns plotted{
      std::move(found.runs), options.group, {}, {}, *std::ranges::find(kAxes, options.x, &PlotAxis::name), {}};
  if (plotted.axis.figure == "env_steps") plotted.axis.label = steps_word(plotted.runs);
  plotted.groups = group_runs(plotted.runs, options.group);
  for (const RunOverview& run : plotted.runs) {
    try {
      plotted.curves.push_back(curves_of(run, plotted.axis, options.y));
    } catch (const IoError& error) {
      plotted.remarks.emplace_back(error.what());
      plotted.curves.emplace_back();
    }
  }
  return plotted;
}

// The last remark, and the number of others: "runs/a: no record has both eval.return_mean and env_steps, and 2 more".
std::string why_nothing(const Words& remarks) {
  if (remarks.empty()) return "there is no run";
  return remarks.back() + (remarks.size() == 1 ? "" : ", and " + std::to_string(remarks.size() - 1) + " more");
}

// Returns of different tasks cannot be compared: each task has panels of its own, unless --group joins them.
std::vector<PlotPanel> panels_of(const PlotOptions& options) {
  const PlottedRuns plotted = read_runs_to_plot(options);
  Words tasks;
  for (const RunOverview& run : plotted.runs)
    if (std::ranges::count(tasks, run.task) == 0) tasks.push_back(run.task);
  const bool apart = tasks.size() > 1 && options.group.empty();
  std::vector<PlotPanel> panels;
  Words remarks = plotted.remarks;
  for (size_t i = 0; i < options.y.size(); ++i) {
    const size_t before = panels.size();
    for (size_t task = 0; task < (apart ? tasks.size() : 1); ++task) {
      PlotPanel panel = panel_of(plotted, i, options.y[i], apart ? &tasks[task] : nullptr, remarks);
      if (!panel.curves.empty()) panels.push_back(std::move(panel));
    }
    if (panels.size() == before) throw ConfigError("--y: " + options.y[i] + ": no curve, " + why_nothing(remarks));
  }
  print_problems(remarks);
  if (!panels.empty()) panels.front().title = options.title;
  return panels;
}

void write_picture(const std::vector<PlotPanel>& panels, const std::string& file) {
  const PictureEnding& ending = *ending_of(file);
  const std::string picture = gnuplot_picture(panels, ending.kind);
  write_output("--output", file, picture);
  print_line(file + ": " + format_counted(panels.size(), "panel"));
}

void print_plots(const std::vector<PlotPanel>& panels) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const char* no_colour = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  const bool colours = terminal && (no_colour == nullptr || *no_colour == '\0');
  const TerminalSize size = terminal ? terminal_size() : TerminalSize{};
  const size_t text_columns = terminal ? size.columns : line_columns();
  for (const PlotPanel& panel : panels) {
    const bool apart = colours || panel.curves.size() == 1;
    const PlotCharacters characters = !takes_utf8() ? PlotCharacters::ascii
                                      : apart       ? PlotCharacters::braille
                                                    : PlotCharacters::symbols;
    std::cout << character_plot(panel, {size.columns, size.drawable_rows() + 1, characters, colours, text_columns});
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
