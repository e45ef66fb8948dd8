#include "tools/cli/plot_options.h"

#include <algorithm>
#include <array>

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tools/cli/figure_names.h"
#include "tools/cli/flag_values.h"

namespace troupe {

namespace {

constexpr std::array kAxes = {PlotAxis{"env_steps", "env_steps", "env steps"},
                              PlotAxis{"updates", "updates", "updates"},
                              PlotAxis{"seconds", "elapsed_seconds", "seconds"}};

constexpr std::array kEndings = {PictureEnding{".svg", PictureKind::svg, "<?xml"},
                                 PictureEnding{".png", PictureKind::png, "\x89PNG"},
                                 PictureEnding{".pdf", PictureKind::pdf, "%PDF"}};

std::string parse_axis(std::string_view flag, const std::string& text) {
  if (std::ranges::count(kAxes, text, &PlotAxis::name) > 0) return text;
  refuse_flag(flag, '"' + printable(text) + "\" is no axis, expected env_steps, updates or seconds");
}

std::string parse_picture(std::string_view, const std::string& text) {
  if (ending_of(text) == nullptr)
    refuse_flag("--output", "\"" + printable(text, 200) + "\": expected a name that ends with .svg, .png or .pdf");
  return text;
}

std::string read_limits(std::string_view flag, const std::string& text) {
  parse_limits(flag, text);
  return text;
}

// What the flags about axes say together.
void check_axes(const PlotOptions& options) {
  const size_t figures = std::max<size_t>(options.y.size(), 1);
  if (options.y_labels.size() > figures)
    refuse_flag("--y-label", printable(options.y_labels.back(), 200) + " is one label too many, there " +
                                 (figures == 1 ? "is 1 figure" : "are " + std::to_string(figures) + " figures"));
  for (const std::string& axis : options.log) {
    if (axis != "x" && axis != "y") refuse_flag("--log", '"' + printable(axis, 200) + "\" is no axis, expected x or y");
    const AxisScale scale = scale_of(options, axis);
    if (scale.low && *scale.low <= 0)
      refuse_flag("--" + axis + "-limits", "a logarithmic axis begins above 0, not at " + format_figure(*scale.low, 2));
  }
}

}  // namespace

const PlotAxis& axis_of(const PlotOptions& options) { return *std::ranges::find(kAxes, options.x, &PlotAxis::name); }

AxisScale scale_of(const PlotOptions& options, std::string_view axis) {
  AxisScale scale;
  scale.log = std::ranges::count(options.log, axis) > 0;
  const std::string& text = axis == "x" ? options.x_limits : options.y_limits;
  if (text.empty()) return scale;
  const AxisLimits limits = parse_limits(axis, text);
  scale.low = limits.low;
  scale.high = limits.high;
  return scale;
}

const PictureEnding* ending_of(const std::string& file) {
  const auto found = std::ranges::find_if(kEndings, [&](const auto& each) { return file.ends_with(each.ending); });
  return found == kEndings.end() ? nullptr : &*found;
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
  flags.repeatable("--y-label", "TEXT", options.y_labels,
                   "label of the y axis in place of the name of the figure; repeatable, one for each --y");
  flags.repeatable("--log", "AXIS", options.log,
                   "a logarithmic axis, x or y; values that are not above 0 are left out");
  flags.option("--x-limits", "LOW..HIGH", options.x_limits, read_limits,
               "limits of the x axes (default: from 0 to the end of the longest curve of the task)");
  flags.option("--y-limits", "LOW..HIGH", options.y_limits, read_limits,
               "limits of the y axes (default: those of the curves)");
  flags.option("--title", "TEXT", options.title, any_text, "line above the picture");
  flags.read();
  check_axes(options);
  for (const std::string& folder : options.runs) path_to(kRunFolder)("RUN", folder);
  for (const std::string& figure : options.y) parse_figure("--y", figure);
  if (options.y.empty()) options.y = {"episodes.return_mean"};
  if (!options.title.empty() && options.output.empty())
    flags.refuse("--title: has no effect without --output, which writes a picture; leave it out");
  return options;
}

}  // namespace troupe
