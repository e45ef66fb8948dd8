#include "tools/top/panels.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/text_format.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/console.h"
#include "tools/top/figures.h"

namespace troupe {

namespace {

constexpr size_t kLabel = 26, kValue = 10;  // columns
constexpr size_t kLeastCurve = 8;           // columns: a narrower curve tells nothing
constexpr size_t kTallCurve = 8;            // lines

bool has_room(const std::vector<FrameLine>& lines, const FrameSize& size) { return lines.size() < size.height; }

void add(std::vector<FrameLine>& lines, const FrameSize& size, FrameLine line) {
  if (has_room(lines, size)) lines.push_back(std::move(line));
}

std::string right_aligned(const std::string& text, size_t width) {
  const size_t taken = display_width(text);
  return std::string(width - std::min(taken, width), ' ') + text;
}

// The lines of the console about that.
void add_console(std::vector<FrameLine>& lines, const TopModel& model, const FrameSize& size, ConsolePart part) {
  if (!model.newest) return;
  for (const ConsoleLine& line : console_lines(model.run, *model.newest, size.width))
    if (line.part == part) add(lines, size, {{line.text}});
}

// The figure and its curve, in `rows` lines. Nothing if there is neither.
void add_curve(std::vector<FrameLine>& lines, const TopModel& model, const FrameSize& size, std::string_view path,
               size_t rows) {
  const size_t head = 2 + kLabel + kValue + 1;
  const size_t bins = size.width > head + kLeastCurve ? size.width - head - 1 : 0;
  const double value = model.newest ? figure_of(*model.newest, path) : kUnknown;
  const std::vector<double> curve = model.history.curve(path, bins);
  if (curve.empty() && !std::isfinite(value)) return;
  const std::vector<std::string> bars = bars_of(curve, rows, size.ascii);
  for (size_t row = 0; row < rows; ++row) {
    FrameLine line = {{std::string(head, ' ')}};
    if (row == 0)
      line = {{"  " + in_columns(label_of(path), kLabel, size.ascii)},
              {right_aligned(figure_text(value, unit_of(path)), kValue) + ' ', Look::heading}};
    line.push_back({bars[row], Look::curve});
    add(lines, size, std::move(line));
  }
}

void add_curves(std::vector<FrameLine>& lines, const TopModel& model, const FrameSize& size,
                std::span<const std::string_view> paths) {
  const bool tall = size.height >= lines.size() + paths.size() + kTallCurve;
  for (const std::string_view path : paths)
    add_curve(lines, model, size, path, tall && path == paths[0] ? kTallCurve : 1);
}

FrameLine share_line(const FigureShare& share, Look look, const FrameSize& size) {
  constexpr size_t kName = 16, kBar = 10;
  return {{"  " + in_columns(share.name, kName, size.ascii), look},
          {share_bar(share.share, kBar, size.ascii), look == Look::plain ? Look::curve : look},
          {right_aligned(share.text, kValue), look}};
}

size_t room_in(const std::vector<FrameLine>& lines, const FrameSize& size) {
  return size.height - std::min(lines.size(), size.height);
}

size_t columns_in(const FrameSize& size, size_t entry_width) {
  return std::max<size_t>(1, std::min<size_t>(2, size.width / std::max<size_t>(entry_width, 1)));
}

// In two columns, if there is room for them. Without room for all entries the last one says how many more there are.
void add_in_columns(std::vector<FrameLine>& lines, const FrameSize& size, std::vector<FrameLine> entries,
                    size_t entry_width) {
  const size_t columns = columns_in(size, entry_width), room = columns * room_in(lines, size);
  if (room == 0) return;
  if (entries.size() > room) {
    const size_t left_out = entries.size() - (room - 1);
    entries.resize(room - 1);
    entries.push_back({{"  +" + std::to_string(left_out) + " more", Look::faint}});
  }
  const size_t rows = (entries.size() + columns - 1) / columns;
  for (size_t row = 0; row < rows; ++row) {
    FrameLine line = entries[row];
    if (columns > 1 && row + rows < entries.size())
      line.insert(line.end(), entries[row + rows].begin(), entries[row + rows].end());
    add(lines, size, std::move(line));
  }
}

// The part that limits the run, then the others, the busiest first.
std::vector<FigureShare> by_importance(std::vector<FigureShare> shares, const std::string& limit) {
  std::ranges::stable_sort(shares, [&](const FigureShare& a, const FigureShare& b) {
    const bool a_limits = a.name == limit, b_limits = b.name == limit;
    return a_limits != b_limits ? a_limits : a.share > b.share;
  });
  return shares;
}

void add_shares(std::vector<FrameLine>& lines, const TopModel& model, const FrameSize& size) {
  const std::string limit = find_bottleneck(*model.newest).limit;
  std::vector<FrameLine> busy, ledger;
  for (const FigureShare& share : by_importance(busy_shares(*model.newest), limit))
    busy.push_back(share_line(share, share.name == limit ? Look::warning : Look::plain, size));
  for (const FigureShare& share : ledger_shares(*model.newest)) ledger.push_back(share_line(share, Look::plain, size));
  constexpr size_t kEntry = 38;
  // The shares are worth more than their heading.
  const size_t rows = (busy.size() + columns_in(size, kEntry) - 1) / columns_in(size, kEntry);
  if (!busy.empty() && room_in(lines, size) > rows) add(lines, size, {{"  busy shares of the last 10 s", Look::faint}});
  add_in_columns(lines, size, busy, kEntry);
  if (const double lag = model.newest->lag_p95; std::isfinite(lag) && model.newest->lag_cap > 0)
    add(lines, size,
        share_line({"lag p95 of cap", lag / static_cast<double>(model.newest->lag_cap),
                    format_figure(lag, 0) + " of " + format_short(model.newest->lag_cap)},
                   Look::plain, size));
  if (!ledger.empty() && room_in(lines, size) > 1) add(lines, size, {{"  what happened to the samples", Look::faint}});
  add_in_columns(lines, size, ledger, kEntry);
}

Look look_of(EventLevel level) {
  switch (level) {
    case EventLevel::error: return Look::error;
    case EventLevel::warning: return Look::warning;
    case EventLevel::news: return Look::plain;
  }
  return Look::plain;
}

// Lines of the log begin with date, time and level.
Look look_of_log(const std::string& line) {
  constexpr size_t kBeginning = 34;
  const std::string_view beginning = std::string_view(line).substr(0, kBeginning);
  if (beginning.find(" error") != beginning.npos) return Look::error;
  return beginning.find(" warning") != beginning.npos ? Look::warning : Look::plain;
}

}  // namespace

std::string in_columns(std::string_view text, size_t width, bool ascii) {
  std::string cut = fitted(text, width);
  if (ascii) {
    std::string plain;
    for (const char c : cut)
      if (const auto byte = static_cast<unsigned char>(c); byte < 0x80)
        plain += c;
      else if (byte >= 0xC0)  // the first byte of a character
        plain += '?';
    cut = std::move(plain);
  }
  return cut + std::string(width - std::min(width, display_width(cut)), ' ');
}

std::vector<FrameLine> learning_panel(const TopModel& model, const FrameSize& size) {
  std::vector<FrameLine> lines;
  add_console(lines, model, size, ConsolePart::result);
  add_curves(lines, model, size, learning_curves());
  return lines;
}

std::vector<FrameLine> flow_panel(const TopModel& model, const FrameSize& size) {
  std::vector<FrameLine> lines;
  add_console(lines, model, size, ConsolePart::flow);
  if (model.newest) add_shares(lines, model, size);
  for (const std::string_view path : flow_curves()) add_curve(lines, model, size, path, 1);
  return lines;
}

std::vector<FrameLine> machines_panel(const TopModel& model, const FrameSize& size) {
  if (!model.newest) return {};
  std::vector<FigureText> texts;
  for (const std::string_view path : {"busy.machine", "busy.run", "inference.up"})
    texts.push_back({label_of(path), figure_text(figure_of(*model.newest, path), unit_of(path))});
  for (FigureText& text : figures_of_group(*model.newest, "Workers and failures")) texts.push_back(std::move(text));
  constexpr size_t kName = 30, kText = 16;
  std::vector<FrameLine> entries;
  std::vector<FrameLine> lines, long_lines;
  for (const FigureText& each : texts) {
    const bool fits = display_width(each.label) <= kName && display_width(each.text) <= kText;
    if (fits)
      entries.push_back({{"  " + in_columns(each.label, kName, size.ascii)},
                         {right_aligned(each.text, kText) + "  ", Look::heading}});
    else
      long_lines.push_back({{"  " + each.label + "  "}, {each.text, Look::heading}});
  }
  add_in_columns(lines, size, entries, 2 + kName + kText + 2);
  for (FrameLine& line : long_lines) add(lines, size, std::move(line));
  return lines;
}

// Half of the room at most is for the log.
std::vector<FrameLine> events_panel(const TopModel& model, const FrameSize& size) {
  std::vector<FrameLine> lines;
  const size_t log = std::min(model.log.size(), size.height / 2), events = size.height - log - (log > 0 ? 1 : 0);
  if (model.events.empty()) add(lines, size, {{"  nothing has happened since top was started", Look::faint}});
  for (const TopEvent& event : model.events) {
    if (lines.size() >= events) break;
    add(lines, size,
        {{"  " + in_columns(event.time, 10, size.ascii), Look::faint}, {event.text, look_of(event.level)}});
  }
  if (log > 0) add(lines, size, {{"  the end of the log", Look::faint}});
  for (auto line = model.log.end() - static_cast<std::ptrdiff_t>(log); line != model.log.end(); ++line)
    add(lines, size, {{"  " + *line, look_of_log(*line)}});
  return lines;
}

std::vector<FrameLine> help_panel(const FrameSize& size) {
  std::vector<FrameLine> lines;
  for (const char* text :
       {"  Tab, Right, Left   the next or previous view", "  1 to 5             a view by its number",
        "  ?                  this help, and back", "  q                  leave; the run goes on", "",
        "  Figures have the names of docs/metrics.md; `troupe metrics NAME` explains them.",
        "  Curves are drawn over the environment steps, or answers, of the whole run."})
    add(lines, size, {{text}});
  return lines;
}

}  // namespace troupe
