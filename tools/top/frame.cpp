#include "tools/top/frame.h"

#include <algorithm>
#include <utility>

#include "runtime/base/text_format.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/console.h"
#include "tools/top/panels.h"
#include "tools/top/texts.h"

namespace troupe {

namespace {

constexpr size_t kLeastBody = 3;                     // lines; with less room there is only the header
constexpr size_t kRoomForBroken = 20;                // lines; with less room the header has no broken lines
constexpr size_t kWideFrame = 150, kHighFrame = 36;  // room for all panels side by side

Look look_of_state(const TopModel& model) {
  if (model.link == Link::lost || model.link == Link::killed) return Look::warning;
  return model.link == Link::live ? Look::good : Look::heading;
}

Look look_of_alarms(const std::map<std::string, Alarm>& alarms) {
  const bool error =
      std::ranges::any_of(alarms, [](const auto& alarm) { return alarm.second.level == AlarmLevel::error; });
  return error ? Look::error : Look::warning;
}

constexpr size_t kIndent = 13;  // of what the lines of the console say after their names

// A line of the console, broken where the next ones have room.
void add_text(std::vector<FrameLine>& lines, const std::string& text, Look look, const FrameSize& size) {
  const size_t head = std::min(text.size(), kIndent);
  for (FrameLine& line : text_lines(text.substr(0, head), look, text.substr(head), look, size))
    lines.push_back(std::move(line));
}

// Of a run that trains no more: the alarms it has had, and the last verdict.
std::vector<FrameLine> past_lines(const TopModel& model, const FrameSize& size) {
  std::vector<FrameLine> lines;
  if (const std::string alarms = past_alarms(model); !alarms.empty())
    add_text(lines, "  alarms     " + alarms, look_of_alarms(model.raised), size);
  if (!model.longest.empty()) {
    add_text(lines, "  bottleneck was " + model.longest, Look::plain, size);
  } else if (model.verdict) {
    Bottleneck verdict = *model.verdict;
    verdict.advice.clear();
    add_text(lines, "  bottleneck was " + text_of(verdict), Look::plain, size);
  }
  return lines;
}

// What is true now: the alarms, and the verdict.
std::vector<FrameLine> present_lines(const TopModel& model, const std::vector<ConsoleLine>& console,
                                     const FrameSize& size) {
  std::vector<FrameLine> lines;
  for (const ConsolePart part : {ConsolePart::alarms, ConsolePart::verdict})
    for (const ConsoleLine& line : console)
      if (line.part == part)
        add_text(lines, line.text, part == ConsolePart::alarms ? look_of_alarms(model.newest->alarms) : Look::plain,
                 size);
  return lines;
}

size_t columns_of(const FrameLine& line) {
  size_t columns = 0;
  for (const Piece& piece : line) columns += display_width(piece.text);
  return columns;
}

// Exactly `width` columns; SIZE_MAX: as many as it has.
FrameLine fit(const FrameLine& line, size_t width, bool ascii) {
  FrameLine result;
  size_t left = width;
  for (const Piece& piece : line) {
    const size_t columns = std::min(display_width(piece.text), left);
    if (columns == 0) continue;
    result.push_back({in_columns(piece.text, columns, ascii), piece.look});
    left -= columns;
  }
  if (left > 0 && width != SIZE_MAX) result.push_back({std::string(left, ' ')});
  return result;
}

FrameLine first_line(const TopModel& model, size_t width) {
  const std::string state = state_text(model);
  const size_t rest = width > state.size() + 2 ? width - state.size() - 2 : 0;
  std::string head = model.run.empty() ? model.source : model.run;
  if (model.newest) {
    StatsSnapshot shown = *model.newest;
    shown.training_ended = model.is_over();  // then there is no time to wait for
    head = console_lines(head, shown, rest)[0].text;
  }
  head = fitted(head, rest);
  const size_t gap = width == SIZE_MAX ? 2 : width - std::min(width, display_width(head) + state.size());
  return {{head, Look::heading}, {std::string(gap, ' ')}, {state, look_of_state(model)}};
}

// The most important lines first; at most `height`.
std::vector<FrameLine> header(const TopModel& model, size_t width, size_t height) {
  std::vector<FrameLine> lines = {first_line(model, width)};
  if (!model.note.empty()) lines.push_back({{"  " + model.note, Look::warning}});
  if (!model.newest) {
    if (model.note.empty()) lines.push_back({{"  waiting for the first report of the run", Look::faint}});
  } else {
    const auto console = console_lines(model.run, *model.newest, width);
    const FrameSize size{.width = width, .height = height, .broken = height >= kRoomForBroken};
    for (FrameLine& line : model.is_over() ? past_lines(model, size) : present_lines(model, console, size))
      lines.push_back(std::move(line));
    for (const ConsoleLine& line : console)
      if (line.part == ConsolePart::samples) lines.push_back({{line.text}});
  }
  lines.push_back({{"  " + model.settings + "  " + model.source, Look::faint}});
  if (lines.size() > height) lines.resize(height);
  return lines;
}

FrameLine tabs(TopView chosen) {
  FrameLine line;
  for (size_t i = 0; i < kViewNames.size(); ++i) {
    const bool is_help = static_cast<TopView>(i) == TopView::help;
    const std::string key = is_help ? "?" : std::to_string(i + 1);
    line.push_back({' ' + key + ' ' + std::string(kViewNames[i]) + ' ',
                    static_cast<TopView>(i) == chosen ? Look::chosen : Look::plain});
  }
  line.push_back({"  q quit", Look::faint});
  return line;
}

std::vector<FrameLine> panel(const TopModel& model, TopView view, const FrameSize& size) {
  switch (view) {
    case TopView::learning: return learning_panel(model, size);
    case TopView::flow: return flow_panel(model, size);
    case TopView::machines: return machines_panel(model, size);
    case TopView::events: return events_panel(model, size);
    case TopView::help: return help_panel(size);
    case TopView::overview: break;
  }
  return {};
}

std::vector<FrameLine> titled(const TopModel& model, TopView view, FrameSize size) {
  if (size.height == 0) return {};
  --size.height;
  std::vector<FrameLine> lines = panel(model, view, size);
  lines.insert(lines.begin(), {{std::string(kViewNames[static_cast<size_t>(view)]), Look::heading}});
  return lines;
}

// One column of panels, each with its share of the height.
std::vector<FrameLine> stacked(const TopModel& model, TopView upper, TopView lower, FrameSize size,
                               size_t upper_height) {
  const size_t height = size.height;
  size.height = std::min(upper_height, height);
  std::vector<FrameLine> lines = titled(model, upper, size);
  if (lines.size() < height) lines.push_back({});
  size.height = height - lines.size();
  for (FrameLine& line : titled(model, lower, size)) lines.push_back(std::move(line));
  return lines;
}

std::vector<FrameLine> overview(const TopModel& model, FrameSize size) {
  if (size.width < kWideFrame || size.height < kHighFrame)
    return stacked(model, TopView::learning, TopView::flow, size, (size.height + 1) / 2);
  const size_t gap = 2;
  FrameSize half = size;
  half.width = (size.width - gap) / 2;
  std::vector<FrameLine> left = stacked(model, TopView::learning, TopView::events, half, size.height * 2 / 3);
  std::vector<FrameLine> right = stacked(model, TopView::flow, TopView::machines, half, size.height * 2 / 3);
  left.resize(std::max(left.size(), right.size()));
  for (size_t i = 0; i < left.size(); ++i) {
    left[i] = fit(left[i], half.width, size.ascii);
    left[i].push_back({std::string(gap, ' ')});
    if (i < right.size()) left[i].insert(left[i].end(), right[i].begin(), right[i].end());
  }
  return left;
}

}  // namespace

std::string state_text(const TopModel& model) {
  const bool ended = model.newest && model.newest->training_ended;
  switch (model.link) {
    case Link::connecting: return "connecting";
    case Link::lost: return ended ? "the run ended" : "connection lost, trying again";
    case Link::unserved: return ended ? "the run ended" : "running";
    case Link::killed: return "killed";
    case Link::ended: return "the run ended";
    case Link::live: break;
  }
  if (model.silent_seconds > model.most_silent) return "silent for " + format_seconds(model.silent_seconds);
  if (ended) return model.newest->evaluating ? "evaluating" : "training ended";
  return model.newest && model.newest->warmup ? "warm-up" : "running";
}

std::vector<FrameLine> frame(const TopModel& model, TopView view, const FrameSize& size) {
  std::vector<FrameLine> lines = header(model, size.width, size.height);
  if (lines.size() + 1 + kLeastBody <= size.height) {
    lines.push_back(tabs(view));
    FrameSize body = size;
    body.height -= lines.size();
    for (FrameLine& line : view == TopView::overview ? overview(model, body) : panel(model, view, body))
      lines.push_back(std::move(line));
  }
  if (lines.size() > size.height) lines.resize(size.height);
  for (FrameLine& line : lines) line = fit(line, std::min(size.width, columns_of(line)), size.ascii);
  return lines;
}

std::string plain_frame(const TopModel& model, size_t width, bool ascii) {
  constexpr size_t kPlainHeight = 40;  // lines of a panel at most
  constexpr size_t kPlainWidth = 100;  // that curves and columns are made for, where nothing is cut
  const FrameSize size{.width = width == SIZE_MAX ? kPlainWidth : width,
                       .height = kPlainHeight,
                       .ascii = ascii,
                       .broken = width != SIZE_MAX};
  std::vector<FrameLine> lines = header(model, width, kPlainHeight);
  for (const TopView view : {TopView::learning, TopView::flow, TopView::machines, TopView::events}) {
    lines.push_back({});
    for (FrameLine& line : titled(model, view, size)) lines.push_back(std::move(line));
  }
  std::string text;
  for (const FrameLine& line : lines) {
    std::string row;
    for (const Piece& piece : fit(line, width, ascii)) row += piece.text;
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + '\n';
  }
  return text;
}

}  // namespace troupe
