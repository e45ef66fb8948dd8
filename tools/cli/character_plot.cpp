#include "tools/cli/character_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr size_t kMargin = 9;  // columns of the marks of the y axis, with a space
constexpr size_t kLeastRows = 6, kLeastColumns = 20;
constexpr std::array kAscii = {"*", "o", "+", "x", "#", "@", "%", "="};
constexpr std::array kSymbols = {"●", "○", "▲", "△", "■", "□", "◆", "◇"};
// The nearest of the 256 colours of terminals to those of the pictures.
constexpr std::array kTerminalColours = {25, 166, 36, 175, 214, 74, 244, 220};

// The characters of the plot, and the curve that each is of.
class Canvas {
 public:
  Canvas(size_t columns, size_t rows, PlotRange range, PlotCharacters characters)
      : columns_(columns), rows_(rows), range_(range), braille_(characters == PlotCharacters::braille) {
    dots_.resize(columns * rows);
    bars_.resize(columns * rows);
    owner_.assign(columns * rows, kNobody);
  }

  static constexpr size_t kNobody = SIZE_MAX;
  static constexpr double kEdge = 1e-9;  // beside the picture, from rounding
  size_t columns() const { return columns_; }
  size_t rows() const { return rows_; }
  size_t owner(size_t column, size_t row) const { return owner_[row * columns_ + column]; }
  uint8_t dots(size_t column, size_t row) const { return dots_[row * columns_ + column]; }
  bool is_bar(size_t column, size_t row) const { return bars_[row * columns_ + column] != 0; }

  // A line: between neighbouring columns of dots it goes up or down without a gap.
  void draw(const GroupCurve& curve, size_t index) {
    if (curve.x.size() == 1) return draw_point(curve, index);
    const RunCurve line{curve.x, curve.mean};
    const size_t across = columns_ * (braille_ ? 2 : 1), down = rows_ * (braille_ ? 4 : 1);
    std::ptrdiff_t before = -1;
    for (size_t i = 0; i < across; ++i) {
      const double along = static_cast<double>(i) / static_cast<double>(across - 1);
      const double x = value_at_share(along, range_.left, range_.right, range_.log_x);
      const double share = share_of(value_at(line, x), range_.bottom, range_.top, range_.log_y);
      if (x < curve.x.front() || x > curve.x.back() || !(share >= -kEdge && share <= 1 + kEdge)) {
        before = -1;  // not on the picture
        continue;
      }
      const auto row = static_cast<std::ptrdiff_t>(std::lround((1 - share) * static_cast<double>(down - 1)));
      const std::ptrdiff_t from = !braille_ || before < 0 ? row : std::min(row, before + (before < row ? 1 : 0));
      const std::ptrdiff_t to = !braille_ || before < 0 ? row : std::max(row, before - (before > row ? 1 : 0));
      for (std::ptrdiff_t each = from; each <= to; ++each) put(i, static_cast<size_t>(each), index);
      before = row;
    }
  }

 private:
  // A point, with its interval as a vertical bar.
  void draw_point(const GroupCurve& curve, size_t index) {
    const double along = share_of(curve.x.front(), range_.left, range_.right, range_.log_x);
    const double up = share_of(curve.mean.front(), range_.bottom, range_.top, range_.log_y);
    if (!(along >= 0 && along <= 1 && up >= -kEdge && up <= 1 + kEdge)) return;  // not on the picture
    const auto across = static_cast<size_t>(std::lround(along * static_cast<double>(columns_ - 1)));
    const auto row_of = [&](double y) {
      const double share = share_of(y, range_.bottom, range_.top, range_.log_y);
      const double down = std::isnan(share) ? 1 : std::clamp(1 - share, 0.0, 1.0);
      return static_cast<size_t>(std::lround(down * static_cast<double>(rows_ - 1)));
    };
    const size_t scale_x = braille_ ? 2 : 1, scale_y = braille_ ? 4 : 1;
    if (curve.runs > 1)
      for (size_t row = row_of(curve.high.front()); row <= row_of(curve.low.front()); ++row) {
        put(across * scale_x, row * scale_y, index);
        bars_[row * columns_ + across] = 1;
      }
    const size_t at = row_of(curve.mean.front());
    put(across * scale_x, at * scale_y, index);
    bars_[at * columns_ + across] = 0;
  }

  void put(size_t across, size_t down, size_t index) {
    // Bits of the dots of a braille character, by column and row.
    constexpr uint8_t kBits[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
    const size_t cell = braille_ ? down / 4 * columns_ + across / 2 : down * columns_ + across;
    if (braille_) dots_[cell] |= kBits[across % 2][down % 4];
    owner_[cell] = index;
  }

  size_t columns_, rows_;
  PlotRange range_;
  bool braille_;
  std::vector<uint8_t> dots_, bars_;
  std::vector<size_t> owner_;
};

// The character U+2800 with these dots.
std::string braille(uint8_t dots) {
  return {static_cast<char>(0xE2), static_cast<char>(0xA0 | dots >> 6), static_cast<char>(0x80 | (dots & 0x3F))};
}

std::string coloured(const std::string& text, size_t curve, const CharacterPlot& how) {
  if (!how.colours) return text;
  return "\x1b[38;5;" + std::to_string(kTerminalColours[curve % kTerminalColours.size()]) + 'm' + text + "\x1b[0m";
}

std::string mark_of(size_t curve, const CharacterPlot& how) {
  switch (how.characters) {
    case PlotCharacters::ascii: return kAscii[curve % kAscii.size()];
    case PlotCharacters::symbols: return kSymbols[curve % kSymbols.size()];
    case PlotCharacters::braille: return braille(0x36);
  }
  return "*";
}

std::string right_of(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// The marks of the y axis by row; empty where there is none.
std::vector<std::string> y_marks(const PlotRange& range, size_t rows) {
  std::vector<std::string> marks(rows);
  for (const AxisTick& tick : axis_ticks(range.bottom, range.top, range.log_y, static_cast<int>(rows / 4 + 1))) {
    const double share = std::clamp(share_of(tick.value, range.bottom, range.top, range.log_y), 0.0, 1.0);
    const auto row = static_cast<size_t>(std::lround((1 - share) * static_cast<double>(rows - 1)));
    marks[std::min(row, rows - 1)] = tick.text;
  }
  return marks;
}

// The names of categories below their points, each cut to its share of the columns.
std::string category_line(const PlotPanel& panel, size_t columns) {
  const std::vector<std::string> names = category_names(panel);
  const size_t share = columns / names.size();
  std::string line(kMargin + 1, ' ');
  for (const std::string& name : names) {
    const std::string text = fitted(name, share > 1 ? share - 1 : 1);
    const size_t free = share - std::min(share, display_width(text));
    line += std::string(free / 2, ' ') + text + std::string(free - free / 2, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string x_axis(const PlotRange& range, size_t columns) {
  std::string line(kMargin + 1 + columns, ' ');
  size_t free = 0;
  for (const auto& [tick, text] :
       axis_ticks(range.left, range.right, range.log_x, static_cast<int>(columns / 14 + 1))) {
    const double share = std::clamp(share_of(tick, range.left, range.right, range.log_x), 0.0, 1.0);
    const auto at = kMargin + 1 + static_cast<size_t>(std::lround(share * static_cast<double>(columns - 1)));
    const size_t begin = std::min(at - std::min(at, text.size() / 2), line.size() - std::min(line.size(), text.size()));
    if (begin < free) continue;
    line.replace(begin, text.size(), text);
    free = begin + text.size() + 1;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// With 4 digits, below 10,000.
std::string value_text(double value) {
  if (std::abs(value) >= 10'000) return format_compact_figure(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

size_t text_columns(const CharacterPlot& how) { return how.text_columns == 0 ? how.columns : how.text_columns; }

// The mark and the label, the runs and the last value: in one line or, without room for it, the label in lines of its
// own, so that nothing is lost.
std::vector<std::string> legend_of(const GroupCurve& curve, size_t index, const CharacterPlot& how) {
  const size_t columns = text_columns(how) - std::min<size_t>(text_columns(how), 2);
  std::string figures = format_counted(curve.runs, "run") + ", at the end " + value_text(curve.mean.back());
  if (curve.runs > 1) figures += " [" + value_text(curve.low.back()) + ", " + value_text(curve.high.back()) + ']';
  const std::string whole = curve.label + ": " + figures;
  std::vector<std::string> lines = {fitted(whole, SIZE_MAX)};
  if (display_width(whole) > columns) {
    lines = wrapped(curve.label + ':', columns);
    for (const std::string& line : wrapped(figures, columns)) lines.push_back(line);
  }
  for (std::string& line : lines) line.insert(0, &line == &lines.front() ? " " : "  ");
  lines.front().insert(0, coloured(mark_of(index, how), index, how));
  return lines;
}

std::string line_of(const Canvas& canvas, size_t row, const CharacterPlot& how) {
  std::string line;
  for (size_t column = 0; column < canvas.columns(); ++column) {
    const size_t curve = canvas.owner(column, row);
    if (curve == Canvas::kNobody) {
      line += ' ';
      continue;
    }
    const std::string bar = how.characters == PlotCharacters::ascii ? "|" : "│";
    const bool dots = how.characters == PlotCharacters::braille;
    const std::string mark = dots                         ? braille(canvas.dots(column, row))
                             : canvas.is_bar(column, row) ? bar
                                                          : mark_of(curve, how);
    line += coloured(mark, curve, how);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string character_plot(const PlotPanel& panel, const CharacterPlot& how) {
  constexpr size_t kOthers = 3;  // the title, the line of the x axis and its marks
  std::string note;
  for (const std::string& each : {interval_note(panel), rough_note(panel)})
    if (!each.empty()) note += (note.empty() ? "" : "; ") + each;
  std::vector<std::string> below;
  for (size_t i = 0; i < panel.curves.size(); ++i)
    for (std::string& line : legend_of(panel.curves[i], i, how)) below.push_back(std::move(line));
  for (const std::string& each : {note, panel.note})
    if (!each.empty())
      for (std::string& line : wrapped(each, text_columns(how))) below.push_back(std::move(line));
  const size_t taken = kOthers + below.size();
  const size_t rows = std::max(kLeastRows, how.rows - std::min(how.rows, taken));
  const size_t columns = std::max(kLeastColumns, how.columns - std::min(how.columns, kMargin + 1));
  const PlotRange range = range_of(panel);
  Canvas canvas(columns, rows, range, how.characters);
  for (size_t i = 0; i < panel.curves.size(); ++i) canvas.draw(panel.curves[i], i);
  const std::vector<std::string> marks = y_marks(range, rows);
  const std::string x_label = panel.categories ? category_axis(panel) : panel.x_label;
  std::string text = fitted(panel.y_label + " over " + x_label, text_columns(how)) + '\n';
  const bool ascii = how.characters == PlotCharacters::ascii;
  for (size_t row = 0; row < rows; ++row)
    text += right_of(marks[row], kMargin - 1) + ' ' + (ascii ? "|" : "│") + line_of(canvas, row, how) + '\n';
  text += std::string(kMargin, ' ') + (ascii ? "+" : "└");
  for (size_t i = 0; i < columns; ++i) text += ascii ? "-" : "─";
  text += '\n' + (panel.categories ? category_line(panel, columns) : x_axis(range, columns)) + '\n';
  for (const std::string& line : below) text += line + '\n';
  return text;
}

bool takes_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets it
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::ranges::transform(text, text.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return text.find("utf-8") != text.npos || text.find("utf8") != text.npos;
  }
  return false;
}

}  // namespace troupe
