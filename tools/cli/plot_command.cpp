// `troupe plot`: draws figures of runs as curves, on the terminal or as a picture.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

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
#include "tools/cli/plot_options.h"
#include "tools/cli/run_curves.h"
#include "tools/cli/run_groups.h"
#include "tools/cli/terminal.h"

namespace troupe {
namespace {

// A remark if all records with the figure have one x, so that the curve is one point; empty otherwise.
std::string one_place(const RunOverview& run, const PlotAxis& axis, const std::string& figure,
                      std::span<const double> values, const RunCurve& curve) {
  const auto records = std::ranges::count_if(values, [](double value) { return std::isfinite(value); });
  if (curve.x.size() != 1 || records < 2) return "";
  return run.folder + ": all " + std::to_string(records) + " records with " + figure + " have the same " +
         std::string(axis.figure) + (axis.name == "seconds" ? "" : "; --x seconds shows them beside each other");
}

// The curves of one run, one for each figure.
std::vector<RunCurve> curves_of(const RunOverview& run, const PlotAxis& axis, const Words& figures, Words& remarks) {
  Words wanted = figures;
  wanted.emplace_back(axis.figure);
  const FigureColumns columns = read_figures(posix_disk(), run.folder, wanted);
  std::vector<RunCurve> curves;
  for (size_t i = 0; i < figures.size(); ++i) {
    curves.push_back(curve_of(columns.values.back(), columns.values[i]));
    const std::string remark = one_place(run, axis, figures[i], columns.values[i], curves.back());
    if (!remark.empty()) remarks.push_back(remark);
  }
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

// The names that `troupe train --name` gave the runs, if those of each group have one, and each group another one.
Words names_of(const PlottedRuns& plotted, const std::vector<DrawnGroup>& groups) {
  Words names;
  for (const DrawnGroup& group : groups) {
    const std::string& name = plotted.runs[group.members.front()].about.name;
    const auto has_it = [&](size_t run) { return plotted.runs[run].about.name == name; };
    if (name.empty() || !std::ranges::all_of(group.members, has_it)) return {};
    if (std::ranges::count(names, printable(name, 200)) > 0) return {};
    names.push_back(printable(name, 200));
  }
  return names;
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
  Words labels = plotted.grouped_by.empty() ? names_of(plotted, drawn) : Words();
  if (labels.empty()) labels = labels_among(groups);
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
  PlottedRuns plotted{std::move(found.runs), options.group, {}, {}, axis_of(options), {}};
  if (plotted.axis.figure == "env_steps") plotted.axis.label = steps_word(plotted.runs);
  plotted.groups = group_runs(plotted.runs, options.group);
  for (const RunOverview& run : plotted.runs) {
    try {
      plotted.curves.push_back(curves_of(run, plotted.axis, options.y, plotted.remarks));
    } catch (const IoError& error) {
      plotted.remarks.emplace_back(error.what());
      plotted.curves.emplace_back();
    }
  }
  return plotted;
}

// Panels of one task have the same x axis, so that those below each other can be compared. It begins at 0.
void align(std::span<PlotPanel* const> panels) {
  double begin = INFINITY, end = -INFINITY;
  for (const PlotPanel* panel : panels) {
    begin = std::min(begin, range_of(*panel).left);
    end = std::max(end, range_of(*panel).right);
  }
  for (PlotPanel* panel : panels) {
    if (panel->x.low) continue;  // given
    panel->x.low = panel->x.log ? begin : std::min(begin, 0.0);
    panel->x.high = end;
  }
}

// The last remark, and the number of others: "runs/a: no record has both eval.return_mean and env_steps, and 2 more".
std::string why_nothing(const Words& remarks) {
  if (remarks.empty()) return "there is no run";
  return remarks.back() + (remarks.size() == 1 ? "" : ", and " + std::to_string(remarks.size() - 1) + " more");
}

// "eval.pass_at.1, eval.pass_at.4": the entries that records of the runs have of a figure.
std::string entries_of(const std::vector<RunOverview>& runs, const std::string& figure) {
  std::set<std::string> entries;
  for (const RunOverview& run : runs) {
    if (!posix_disk().exists(metrics_file(run.folder))) continue;
    const LastRecords records = read_last_records(posix_disk(), run.folder, true);
    for (const Record* record : {&records.last, &records.evaluated})
      for (const auto& [path, value] : *record)
        if (path.starts_with(figure + '.')) entries.insert(path);
  }
  std::string names;
  for (const std::string& entry : entries) names += (names.empty() ? "" : ", ") + printable(entry, 200);
  return names;
}

[[noreturn]] void refuse_figure(const PlottedRuns& plotted, const std::string& figure, const Words& remarks) {
  if (const std::string entries = entries_of(plotted.runs, figure); !entries.empty())
    refuse_flag("--y", figure + ": has several entries, name one: " + entries);
  refuse_flag("--y", figure + ": no curve, " + why_nothing(remarks));
}

// Returns of different tasks cannot be compared: each task has panels of its own, unless --group joins them.
std::vector<PlotPanel> panels_of(const PlotOptions& options) {
  const PlottedRuns plotted = read_runs_to_plot(options);
  Words tasks, of_panel;
  for (const RunOverview& run : plotted.runs)
    if (std::ranges::count(tasks, run.task) == 0) tasks.push_back(run.task);
  const bool apart = tasks.size() > 1 && options.group.empty();
  if (!apart) tasks = {""};
  std::vector<PlotPanel> panels;
  Words remarks = plotted.remarks;
  for (size_t i = 0; i < options.y.size(); ++i) {
    const size_t before = panels.size();
    for (const std::string& task : tasks) {
      PlotPanel panel = panel_of(plotted, i, options.y[i], apart ? &task : nullptr, remarks);
      if (panel.curves.empty()) continue;
      panel.x = scale_of(options, "x");
      panel.y = scale_of(options, "y");
      if (i < options.y_labels.size()) panel.y_label = (apart ? task + ": " : "") + options.y_labels[i];
      panels.push_back(std::move(panel));
      of_panel.push_back(task);
    }
    if (panels.size() == before) refuse_figure(plotted, options.y[i], remarks);
  }
  for (const std::string& task : tasks) {
    std::vector<PlotPanel*> same;
    for (size_t i = 0; i < panels.size(); ++i)
      if (of_panel[i] == task && !panels[i].categories) same.push_back(&panels[i]);
    align(same);
  }
  print_problems(remarks);
  panels.front().title = options.title;
  return panels;
}

void write_picture(const std::vector<PlotPanel>& panels, const std::string& file) {
  const PictureEnding& ending = *ending_of(file);
  const std::string picture = gnuplot_picture(panels, ending.kind);
  write_output("--output", file, picture);
  for (const PlotPanel& panel : panels)
    if (const std::string rough = rough_note(panel); !rough.empty())
      print_error("troupe: " + printable(panel.y_label, 200) + ": the intervals are " + rough);
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
