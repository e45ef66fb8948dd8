#include "tools/cli/gnuplot_picture.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "runtime/base/child_process.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"

namespace troupe {

namespace {

// Okabe and Ito, "Color universal design"; their yellow last, which is hard to see on white.
constexpr std::array kPictureColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                        "#e69f00", "#56b4e9", "#000000", "#f0e442"};
// Lengths of strokes and gaps, in widths of the line.
constexpr std::array kDashes = {"solid", "(8,3)", "(3,2)", "(8,2,2,2)", "(8,2,2,2,2,2)"};
// Its filled circle, square, triangles and diamond, then the same as outlines.
constexpr std::array kPoints = {7, 5, 9, 11, 13, 6, 4, 8, 10, 12};

constexpr int kWidth = 640, kPanelHeight = 360, kLegendHeight = 20;

// Characters beside each other at the size of the pictures; a wide font needs 7.5 pixels for one.
constexpr size_t kTextColumns = 60, kHeightColumns = 36;
constexpr size_t kShownText = 1000;  // bytes

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : printable(text, kShownText)) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + '\'';
}

// In lines of at most `width` characters.
std::string quoted_lines(const std::string& text, size_t width) {
  std::string result;
  for (const std::string& line : wrapped(printable(text, kShownText), width))
    result += (result.empty() ? "" : R"(."\n".)") + quoted(line);
  return result;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string tics(double low, double high, bool log, int count) {
  std::string text;
  for (const AxisTick& tick : axis_ticks(low, high, log, count))
    text += (text.empty() ? "" : ", ") + quoted(tick.text) + ' ' + number(tick.value);
  return '(' + text + ')';
}

std::string terminal(PictureKind kind, int height) {
  const std::string size = std::to_string(kWidth) + ',' + std::to_string(height);
  const std::string twice = std::to_string(2 * kWidth) + ',' + std::to_string(2 * height);
  switch (kind) {
    case PictureKind::svg: return "svg size " + size + " dynamic background '#ffffff' font 'sans-serif,13' noenhanced";
    case PictureKind::png: return "pngcairo size " + twice + " fontscale 2 linewidth 2 font 'sans-serif,10' noenhanced";
    case PictureKind::pdf:
      return "pdfcairo size " + number(kWidth / 100.0) + "in," + number(height / 100.0) +
             "in font 'sans-serif,10' noenhanced";
  }
  return "svg";
}

// "$c0_2": the data of a curve of a panel.
std::string data_name(const char* kind, size_t panel, size_t curve) {
  return std::string("$") + kind + std::to_string(panel) + '_' + std::to_string(curve);
}

// range_of() with the bands of the curves, and up to the next ticks of the y axis where its limits are not given.
PlotRange picture_range(const PlotPanel& panel) {
  PlotRange range = range_of(panel);
  for (const GroupCurve& curve : panel.curves) {
    if (curve.runs < 2 || curve.x.size() < 2) continue;
    if (!panel.y.high) range.top = std::max(range.top, std::ranges::max(curve.high));
    if (!panel.y.low && !range.log_y) range.bottom = std::min(range.bottom, std::ranges::min(curve.low));
  }
  const std::vector<AxisTick> ticks = axis_ticks(range.bottom, range.top, false, 6);
  if (range.log_y || ticks.size() < 2) return range;
  const double distance = ticks[1].value - ticks[0].value;
  if (!panel.y.low) range.bottom = std::floor(range.bottom / distance + 1e-9) * distance;
  if (!panel.y.high) range.top = std::ceil(range.top / distance - 1e-9) * distance;
  return range;
}

// x, mean, low and high of each curve. On a logarithmic axis a band ends at the edge of the picture, where its lower
// end has no place.
std::string data_of(const PlotPanel& panel, size_t index) {
  std::string text;
  const double least = panel.y.log ? picture_range(panel).bottom : -INFINITY;
  for (size_t i = 0; i < panel.curves.size(); ++i) {
    const GroupCurve& curve = panel.curves[i];
    text += data_name("c", index, i) + " << EOD\n";
    for (size_t k = 0; k < curve.x.size(); ++k)
      text += number(curve.x[k]) + ' ' + number(curve.mean[k]) + ' ' + number(std::max(curve.low[k], least)) + ' ' +
              number(std::max(curve.high[k], least)) + '\n';
    text += "EOD\n";
    if (curve.marks.empty()) continue;
    text += data_name("m", index, i) + " << EOD\n";
    for (const double x : curve.marks) text += number(x) + ' ' + number(value_at({curve.x, curve.mean}, x)) + '\n';
    text += "EOD\n";
  }
  return text;
}

std::string mark_of(size_t i) { return " pt " + std::to_string(kPoints[i % kPoints.size()]) + " ps "; }

std::string dashes_of(size_t i) { return std::string(" dt ") + kDashes[i % kDashes.size()]; }

// Points with bars for their intervals, or a line; the band of a line is apart, so that all bands are below the lines.
std::string style_of(const GroupCurve& curve, size_t i) {
  if (curve.x.size() > 1) return " using 1:2 with lines" + dashes_of(i);
  return (curve.runs > 1 ? " using 1:2:3:4 with yerrorbars" : " using 1:2 with points") + mark_of(i) + "1.2";
}

// Whether the names of the categories have no room beside each other: then they are numbers, which the legend explains.
bool are_numbered(const PlotPanel& panel) {
  size_t longest = 0;
  for (const std::string& name : category_names(panel)) longest = std::max(longest, display_width(name));
  return panel.categories && longest * panel.curves.size() > kTextColumns;
}

std::string category_tics(const PlotPanel& panel) {
  std::string text;
  size_t i = 0;
  for (const std::string& name : category_names(panel)) {
    text += (text.empty() ? "" : ", ") + quoted(are_numbered(panel) ? std::to_string(i + 1) : name) + ' ' +
            std::to_string(i);
    ++i;
  }
  return "norotate (" + text + ')';
}

// The lines of the legend for a curve.
std::vector<std::string> legend_of(const PlotPanel& panel, size_t i) {
  const GroupCurve& curve = panel.curves[i];
  return wrapped((are_numbered(panel) ? std::to_string(i + 1) + ": " : "") + printable(curve.label, kShownText) +
                     (curve.runs > 1 ? " (" + std::to_string(curve.runs) + " runs)" : ""),
                 kTextColumns);
}

// Those below the curves. That the intervals of few runs are rough is no part of a picture.
std::vector<std::string> notes_of(const PlotPanel& panel) {
  std::vector<std::string> notes;
  for (const std::string& note : {interval_note(panel), panel.note})
    if (!note.empty())
      for (std::string& line : wrapped(note, kTextColumns)) notes.push_back(std::move(line));
  return notes;
}

// An entry of the legend without a curve.
std::string text_entry(const std::string& text) {
  return ", NaN with points pt -1 lc rgb '#ffffff' title " + quoted(text);
}

int lines_of_legend(const PlotPanel& panel) {
  size_t lines = notes_of(panel).size();
  for (size_t i = 0; i < panel.curves.size(); ++i) lines += legend_of(panel, i).size();
  return static_cast<int>(lines);
}

// A curve with its entry in the legend. One with marks has an entry with a line and a mark.
std::string line_of(const PlotPanel& panel, size_t index, size_t i) {
  const GroupCurve& curve = panel.curves[i];
  const std::vector<std::string> legend = legend_of(panel, i);
  const std::string look = std::string(" lc rgb '") + kPictureColours[i % kPictureColours.size()] + "' lw 2";
  std::string text = data_name("c", index, i) + style_of(curve, i) + look;
  if (curve.marks.empty())
    text += " title " + quoted(legend.front());
  else
    text += " notitle, " + data_name("m", index, i) + " using 1:2 with points" + mark_of(i) + '1' + look +
            " notitle, NaN with linespoints" + dashes_of(i) + mark_of(i) + '1' + look + " title " +
            quoted(legend.front());
  for (size_t k = 1; k < legend.size(); ++k) text += text_entry("  " + legend[k]);
  return text;
}

std::string axes_of(const PlotPanel& panel) {
  const PlotRange range = picture_range(panel);
  std::string text = "unset logscale\n";
  if (range.log_x || range.log_y)
    text += std::string("set logscale ") + (range.log_x ? "x" : "") + (range.log_y ? "y" : "") + '\n';
  const std::string x =
      panel.categories ? category_tics(panel) : "norotate " + tics(range.left, range.right, range.log_x, 6);
  return text + "set xrange [" + number(range.left) + ':' + number(range.right) + "]\nset xtics " + x +
         "\nset yrange [" + number(range.bottom) + ':' + number(range.top) + "]\nset ytics " +
         tics(range.bottom, range.top, range.log_y, 6);
}

// Characters beside the y axes: the same for all panels, so that their x axes are below each other.
size_t left_margin(std::span<const PlotPanel> panels) {
  constexpr size_t kBesides = 4;  // the strokes of the ticks, and the gaps
  size_t ticks = 0, lines = 0;
  for (const PlotPanel& panel : panels) {
    const PlotRange range = picture_range(panel);
    for (const AxisTick& tick : axis_ticks(range.bottom, range.top, range.log_y, 6))
      ticks = std::max(ticks, tick.text.size());
    lines = std::max(lines, wrapped(printable(panel.y_label, kShownText), kHeightColumns).size());
  }
  return ticks + 2 * lines + kBesides;
}

std::string plot_of(const PlotPanel& panel, size_t index) {
  std::string bands, lines;
  for (size_t i = 0; i < panel.curves.size(); ++i) {
    if (panel.curves[i].runs > 1 && panel.curves[i].x.size() > 1)
      bands += data_name("c", index, i) + " using 1:3:4 with filledcurves lc rgb '" +
               kPictureColours[i % kPictureColours.size()] + "' fs transparent solid 0.2 noborder notitle, ";
    lines += (lines.empty() ? "" : ", ") + line_of(panel, index, i);
  }
  for (const std::string& note : notes_of(panel)) lines += text_entry(note);
  return "set title " + quoted_lines(panel.title, kTextColumns) + "\nset xlabel " +
         // With an empty line, which keeps the label apart from the legend.
         quoted_lines(panel.categories ? category_axis(panel) : panel.x_label, kTextColumns) + R"(."\n ")" +
         "\nset ylabel " + quoted_lines(panel.y_label, kHeightColumns) + '\n' + axes_of(panel) + "\nplot " + bands +
         lines + '\n';
}

Descriptor file_in_memory(const char* name) {
  const int number = memfd_create(name, MFD_CLOEXEC);
  if (number < 0) throw IoError(name, "cannot be made in memory", errno);
  return Descriptor(number);
}

void write_all(const Descriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file.number(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw IoError("the script of gnuplot", "cannot write", errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
}

std::string contents(const Descriptor& file) {
  struct stat status{};
  if (::fstat(file.number(), &status) != 0) throw IoError("the picture of gnuplot", "cannot read", errno);
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  const ssize_t got = ::pread(file.number(), bytes.data(), bytes.size(), 0);
  if (got < 0) throw IoError("the picture of gnuplot", "cannot read", errno);
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

// Puts the title of the picture, or what it draws, in place of the name of gnuplot, which browsers show.
void name_svg(std::string& svg, const PlotPanel& panel) {
  constexpr std::string_view kTitle = "<title>Gnuplot</title>";
  const size_t begin = svg.find(kTitle);
  if (begin == svg.npos) return;
  std::string name = "<title>";
  const std::string x = panel.categories ? category_axis(panel) : panel.x_label;
  for (const char c : printable(panel.title.empty() ? panel.y_label + " over " + x : panel.title, kShownText))
    name += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  svg.replace(begin, kTitle.size(), name + "</title>");
}

// Replaces the time at which a PDF was made by another text of the same length, because the file holds positions of
// bytes.
void remove_date(std::string& pdf) {
  constexpr std::string_view kKey = "/CreationDate (D:", kDate = "19700101000000Z00'00";
  const size_t begin = pdf.find(kKey);
  if (begin == pdf.npos) return;
  const size_t from = begin + kKey.size(), to = pdf.find(')', from);
  if (to != pdf.npos && to - from <= kDate.size()) pdf.replace(from, to - from, kDate.substr(0, to - from));
}

}  // namespace

std::string gnuplot_script(std::span<const PlotPanel> panels, PictureKind kind, const std::string& output) {
  int below = 0;
  for (const PlotPanel& panel : panels) below = std::max(below, lines_of_legend(panel));
  const int panel_height = kPanelHeight + kLegendHeight * (below + 1);
  const int height = panel_height * static_cast<int>(panels.size());
  std::string script = "set terminal " + terminal(kind, height) + "\nset output " + quoted(output) + R"(
set encoding utf8
set decimalsign '.'
set border 3 lc rgb '#59636e'
set tics nomirror out
set grid lc rgb '#d1d9e0' lw 1 dt 1
set key below left vertical maxcols 1 Left reverse
)" + "set lmargin " + std::to_string(left_margin(panels)) +
                       '\n';
  for (size_t i = 0; i < panels.size(); ++i) script += data_of(panels[i], i);
  if (panels.size() > 1) script += "set multiplot layout " + std::to_string(panels.size()) + ",1\n";
  for (size_t i = 0; i < panels.size(); ++i) script += plot_of(panels[i], i);
  if (panels.size() > 1) script += "unset multiplot\n";
  return script + "unset output\n";
}

std::string gnuplot_picture(std::span<const PlotPanel> panels, PictureKind kind) {
  // As the program sees the descriptors that it is given.
  constexpr const char* kScript = "/dev/fd/3";
  constexpr const char* kOutput = "/dev/fd/4";
  constexpr std::chrono::milliseconds kLimit{60'000};
  try {
    const Descriptor script = file_in_memory("script"), output = file_in_memory("picture");
    write_all(script, gnuplot_script(panels, kind, kOutput));
    const int descriptors[] = {script.number(), output.number()};
    ChildProcess gnuplot({"gnuplot", "-d", kScript}, descriptors);
    if (!gnuplot.wait(kLimit)) throw ConfigError("gnuplot: has drawn nothing for 60 s");
    std::string picture = contents(output);
    if (gnuplot.exit_code() != 0 || picture.empty())
      throw ConfigError("gnuplot: " + gnuplot.state() + ": " + printable(gnuplot.last_line(), 200));
    if (kind == PictureKind::pdf) remove_date(picture);
    if (kind == PictureKind::svg) name_svg(picture, panels.front());
    return picture;
  } catch (const IoError& error) {
    throw ConfigError(std::string(error.what()) +
                      "; pictures need gnuplot (Debian, Ubuntu: apt-get install gnuplot-nox)");
  }
}

}  // namespace troupe
