#include "tools/top/panels.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/text_format.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/console.h"
#include "tools/top/figures.h"
#include "tools/top/texts.h"

namespace troupe {

namespace {

constexpr size_t kValue = 10;         // columns
constexpr size_t kLeastCurve = 8;     // columns: a narrower curve tells nothing
constexpr size_t kTallCurve = 8;      // lines
constexpr size_t kAnswersFirst = 14;  // lines: with fewer, the curves come before the figures of answers

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

double newest_figure(const TopModel& model, std::string_view path) {
  return model.newest ? figure_of(*model.newest, path) : kUnknown;
}

// The figure and its curve, in `rows` lines. Nothing if there is neither.
void add_curve(std::vector<FrameLine>& lines, const TopModel& model, const FrameSize& size, std::string_view path,
               size_t rows, size_t label_width) {
  const size_t head = 2 + label_width + 1 + kValue + 1;
  const size_t bins = size.width > head + kLeastCurve ? size.width - head - 1 : 0;
  const double value = newest_figure(model, path);
  const std::vector<double> curve = model.history.curve(path, bins);
  if (curve.empty() && !std::isfinite(value)) return;
  const std::vector<std::string> bars = bars_of(curve, rows, size.ascii);
  const std::string unit = unit_of(path), text = figure_text(value, unit) + (unit == "ms" ? " ms" : "");
  for (size_t row = 0; row < rows; ++row) {
    FrameLine line = {{std::string(head, ' ')}};
    if (row == 0)
      line = {{"  " + in_columns(label_of(path, *model.words), label_width, size.ascii) + ' '},
              {right_aligned(text, kValue) + ' ', Look::heading}};
    line.push_back({bars[row], Look::curve});
    add(lines, size, std::move(line));
  }
}

void add_curves(std::vector<FrameLine>& lines, const TopModel& model, const FrameSize& size,
                std::span<const std::string_view> paths, bool first_is_tall) {
  // Labels have half of the width at most.
  size_t label_width = 0;
  for (const std::string_view path : paths)
    if (std::isfinite(newest_figure(model, path)) || !model.history.curve(path, 1).empty())
      label_width = std::max(label_width, display_width(label_of(path, *model.words)));
  label_width = std::min(label_width, size.width / 2);
  const bool tall = first_is_tall && size.height >= lines.size() + paths.size() + kTallCurve;
  for (const std::string_view path : paths)
    add_curve(lines, model, size, path, tall && path == paths[0] ? kTallCurve : 1, label_width);
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

// Shares below a heading, if there is one. `limit` is the name of the one that stands out.
void add_share_list(std::vector<FrameLine>& lines, const FrameSize& size, const std::vector<FigureShare>& shares,
                    const std::string& heading, const std::string& limit) {
  constexpr size_t kLeastBar = 3, kMostBar = 10;
  size_t label = 0, text = 0;
  for (const FigureShare& share : shares) {
    label = std::max(label, display_width(share.label));
    text = std::max(text, display_width(share.text));
  }
  const size_t besides = 2 + label + 1 + 1 + text;
  const size_t half = size.width / 2, room = half > besides + kLeastBar ? half - besides : kLeastBar;
  const size_t bar = columns_in(size, besides + kLeastBar) > 1 ? std::min(room, kMostBar) : kMostBar;
  std::vector<FrameLine> entries;
  for (const FigureShare& share : shares) {
    const Look look = share.name == limit ? Look::warning : Look::plain;
    entries.push_back({{"  " + in_columns(share.label, label, size.ascii) + ' ', look},
                       {share_bar(share.share, bar, size.ascii), look == Look::plain ? Look::curve : look},
                       {' ' + right_aligned(share.text, text), look}});
  }
  // The shares are worth more than their heading.
  const size_t columns = columns_in(size, besides + bar), rows = (entries.size() + columns - 1) / columns;
  if (!heading.empty() && rows > 0 && room_in(lines, size) > rows) add(lines, size, {{heading, Look::faint}});
  add_in_columns(lines, size, std::move(entries), besides + bar);
}

void add_shares(std::vector<FrameLine>& lines, const StatsSnapshot& s, const FrameSize& size) {
  const std::string limit = find_bottleneck(s).limit;
  add_share_list(lines, size, by_importance(busy_shares(s), limit), "  busy shares of the last 10 s", limit);
  if (std::isfinite(s.lag_p95) && s.lag_cap > 0)
    add_share_list(lines, size,
                   {{"", label_of("lag.p95", *s.words), s.lag_p95 / static_cast<double>(s.lag_cap),
                     format_figure(s.lag_p95, 0) + " of cap " + format_short(s.lag_cap)}},
                   "", "lag");
  add_share_list(lines, size, ledger_shares(s), "  what happened to the samples", "none");
}

// What the verdict on the bottleneck rests on, as far as it is known.
void add_verdict(std::vector<FrameLine>& lines, const StatsSnapshot& s, const FrameSize& size) {
  std::string resource = words_at(s, "bottleneck.resource");
  const std::string waits = words_at(s, "bottleneck.waits");
  if (resource.empty() || resource == "unknown" || resource == "none") return;
  std::ranges::replace(resource, '_', ' ');
  std::string text = "  resource   " + resource;
  if (const double share = figure_of(s, "bottleneck.share"); std::isfinite(share)) text += ' ' + format_percent(share);
  if (!waits.empty()) text += "  " + waits + (waits.ends_with('s') ? " wait" : " waits");
  if (const double gain = figure_of(s, "bottleneck.gain"); std::isfinite(gain))
    text += "  twice as much: " + (format_percent(gain) == "0 %" ? "no" : format_percent(gain)) + " faster";
  add(lines, size, {{text}});
}

// In columns. A label or a text that is too long for that has a line of its own, after the others.
void add_figures(std::vector<FrameLine>& lines, const FrameSize& size, const std::vector<FigureText>& figures,
                 size_t most_label) {
  constexpr size_t kText = 16;
  const auto fits = [&](const FigureText& figure) {
    return display_width(figure.label) <= most_label && display_width(figure.text) <= kText;
  };
  size_t label = 0, text = 0;
  for (const FigureText& figure : figures)
    if (fits(figure)) {
      label = std::max(label, display_width(figure.label));
      text = std::max(text, display_width(figure.text));
    }
  std::vector<FrameLine> entries, long_lines;
  for (const FigureText& figure : figures)
    if (fits(figure))
      entries.push_back({{"  " + in_columns(figure.label, label, size.ascii) + ' '},
                         {right_aligned(figure.text, text) + ' ', Look::heading}});
    else
      long_lines.push_back({{"  " + figure.label + "  "}, {figure.text, Look::heading}});
  add_in_columns(lines, size, std::move(entries), 2 + label + 1 + text + 1);
  for (FrameLine& line : long_lines) add(lines, size, std::move(line));
}

// Of a token run: turns, lengths, groups with equal rewards, and the parts of the reward.
void add_answers(std::vector<FrameLine>& lines, const StatsSnapshot& s, const FrameSize& size) {
  constexpr size_t kMostLabel = 26;  // so that 80 columns have room for two
  const auto add_below = [&](const std::string& heading, const std::vector<FigureText>& figures) {
    if (figures.empty()) return;
    add(lines, size, {{"  " + heading, Look::faint}});
    add_figures(lines, size, figures, kMostLabel);
  };
  add_below("answers", figures_of_group(s, "Answers"));
  add_below(label_of("episodes.return_parts", *s.words), entries_at(s, "episodes.return_parts"));
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
  const bool answers = model.newest && model.newest->words->tokens;
  const bool first = size.height >= kAnswersFirst;
  if (answers && first) add_answers(lines, *model.newest, size);
  add_curves(lines, model, size, learning_curves(), /*first_is_tall=*/true);
  if (answers && !first) add_answers(lines, *model.newest, size);
  return lines;
}

std::vector<FrameLine> flow_panel(const TopModel& model, const FrameSize& size) {
  std::vector<FrameLine> lines;
  add_console(lines, model, size, ConsolePart::flow);
  if (model.newest) {
    add_verdict(lines, *model.newest, size);
    add_shares(lines, *model.newest, size);
  }
  add_curves(lines, model, size, flow_curves(), /*first_is_tall=*/false);
  return lines;
}

std::vector<FrameLine> machines_panel(const TopModel& model, const FrameSize& size) {
  if (!model.newest) return {};
  std::vector<FigureText> texts;
  for (const std::string_view path : {"busy.machine", "busy.run", "inference.up"})
    texts.push_back({label_of(path, *model.words), figure_text(figure_of(*model.newest, path), unit_of(path))});
  for (FigureText& text : figures_of_group(*model.newest, "Workers and failures")) texts.push_back(std::move(text));
  constexpr size_t kMostLabel = 36;
  std::vector<FrameLine> lines;
  add_figures(lines, size, texts, kMostLabel);
  return lines;
}

// Half of the room at most is for the log, and half of the rest for the alarms that are raised.
std::vector<FrameLine> events_panel(const TopModel& model, const FrameSize& size) {
  std::vector<FrameLine> log;
  for (auto line = model.log.rbegin(); line != model.log.rend() && log.size() < size.height / 2; ++line) {
    std::vector<FrameLine> lines = text_lines("  ", look_of_log(*line), *line, look_of_log(*line), size);
    log.insert(log.begin(), lines.begin(), lines.end());
  }
  if (log.size() > size.height / 2) log.erase(log.begin(), log.end() - static_cast<std::ptrdiff_t>(size.height / 2));
  const size_t events = size.height - log.size() - (log.empty() ? 0 : 1);
  std::vector<FrameLine> lines = alarm_lines(model, size);
  if (lines.size() > events / 2) lines.resize(events / 2);
  if (!lines.empty()) add(lines, size, {{"  what has happened, the newest first", Look::faint}});
  if (model.events.empty()) add(lines, size, {{"  nothing has happened since top was started", Look::faint}});
  for (const TopEvent& event : model.events) {
    if (lines.size() >= events) break;
    const std::string time = "  " + in_columns(event.time, 10, size.ascii);
    for (FrameLine& line : text_lines(time, Look::faint, event.text, look_of(event.level), size))
      if (lines.size() < events) lines.push_back(std::move(line));
  }
  if (!log.empty()) add(lines, size, {{"  the end of the log", Look::faint}});
  for (FrameLine& line : log) add(lines, size, std::move(line));
  return lines;
}

std::vector<FrameLine> help_panel(const FrameSize& size) {
  std::vector<FrameLine> lines;
  for (const char* text :
       {"  Tab, Right, Left   the next or previous view", "  1 to 5             a view by its number",
        "  ?                  this help, and back", "  q                  leave; the run goes on", "",
        "  Figures are called as on the page; docs/metrics.md has their units and meanings.",
        "  Curves are drawn over the environment steps, or answers, of the whole run."})
    add(lines, size, {{text}});
  return lines;
}

}  // namespace troupe
