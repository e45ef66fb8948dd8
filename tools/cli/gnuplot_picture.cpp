#include "tools/cli/gnuplot_picture.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
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
constexpr int kDashes = 5;  // patterns of gnuplot
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

std::string tics(double low, double high, int count) {
  const std::vector<double> ticks = ticks_between(low, high, count);
  const double distance = ticks.size() > 1 ? ticks[1] - ticks[0] : high - low;
  std::string text;
  for (const double tick : ticks)
    text += (text.empty() ? "" : ", ") + quoted(tick_text(tick, distance)) + ' ' + number(tick);
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

// x, mean, low and high of each curve.
std::string data_of(const PlotPanel& panel, size_t index) {
  std::string text;
  for (size_t i = 0; i < panel.curves.size(); ++i) {
    const GroupCurve& curve = panel.curves[i];
    text += "$c" + std::to_string(index) + '_' + std::to_string(i) + " << EOD\n";
    for (size_t k = 0; k < curve.x.size(); ++k)
      text += number(curve.x[k]) + ' ' + number(curve.mean[k]) + ' ' + number(curve.low[k]) + ' ' +
              number(curve.high[k]) + '\n';
    text += "EOD\n";
  }
  return text;
}

// Points with bars for their intervals, or a line; the band of a line is apart, so that all bands are below the lines.
std::string style_of(const GroupCurve& curve, size_t i) {
  if (curve.x.size() > 1) return " using 1:2 with lines dt " + std::to_string(i % kDashes + 1);
  const std::string mark = " pt " + std::to_string(kPoints[i % kPoints.size()]) + " ps 1.2";
  return (curve.runs > 1 ? " using 1:2:3:4 with yerrorbars" : " using 1:2 with points") + mark;
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

// Those below the curves.
std::vector<std::string> notes_of(const PlotPanel& panel) {
  std::vector<std::string> notes = interval_notes(panel);
  if (panel.note.empty()) return notes;
  for (std::string& line : wrapped(panel.note, kTextColumns)) notes.push_back(std::move(line));
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

std::string plot_of(const PlotPanel& panel, size_t index) {
  std::string bands, lines;
  for (size_t i = 0; i < panel.curves.size(); ++i) {
    const GroupCurve& curve = panel.curves[i];
    const std::string data = "$c" + std::to_string(index) + '_' + std::to_string(i);
    const std::string colour = std::string(" lc rgb '") + kPictureColours[i % kPictureColours.size()] + '\'';
    if (curve.runs > 1 && curve.x.size() > 1)
      bands += data + " using 1:3:4 with filledcurves" + colour + " fs transparent solid 0.2 noborder notitle, ";
    const std::vector<std::string> legend = legend_of(panel, i);
    lines += (lines.empty() ? "" : ", ") + data + style_of(curve, i) + colour + " lw 2 title " + quoted(legend.front());
    for (size_t k = 1; k < legend.size(); ++k) lines += text_entry("  " + legend[k]);
  }
  for (const std::string& note : notes_of(panel)) lines += text_entry(note);
  const PlotRange range = range_of(panel);
  return "set title " + quoted_lines(panel.title, kTextColumns) + "\nset xlabel " +
         // With an empty line, which keeps the label apart from the legend.
         quoted_lines(panel.categories ? category_axis(panel) : panel.x_label, kTextColumns) + R"(."\n ")" +
         "\nset ylabel " + quoted_lines(panel.y_label, kHeightColumns) + "\nset xrange [" + number(range.left) + ':' +
         number(range.right) + "]\nset xtics " +
         (panel.categories ? category_tics(panel) : "norotate " + tics(range.left, range.right, 6)) + "\nplot " +
         bands + lines + '\n';
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
)";
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
    return picture;
  } catch (const IoError& error) {
    throw ConfigError(std::string(error.what()) +
                      "; pictures need gnuplot (Debian, Ubuntu: apt-get install gnuplot-nox)");
  }
}

}  // namespace troupe
