// `troupe top`: a live run in the terminal.

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/run_folder/run_overview.h"
#include "runtime/stats/console.h"
#include "tools/cli/command.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/launch.h"
#include "tools/cli/terminal.h"
#include "tools/top/frame.h"
#include "tools/top/run_files.h"
#include "tools/top/run_watch.h"
#include "tools/top/screen.h"
#include "tools/top/signal_pipe.h"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kTick{1000};  // the picture is drawn again at least that often
constexpr const char* kRuns = "runs";

struct TopOptions {
  std::string run;  // folder or address; empty: the only live run
  bool once = false;
};

TopOptions read_top(Flags& flags) {
  TopOptions options;
  flags.optional_argument("RUN", options.run, any_text,
                          "folder of a run, or HOST:PORT of its statistics (default: the only live run below runs/)");
  flags.toggle("--once", options.once, "print everything once, as plain text, and end");
  flags.read();
  return options;
}

WatchedRun only_live_run() {
  const std::vector<std::string> found = live_runs(kRuns);
  if (found.size() == 1) return {.address = std::nullopt, .folder = found[0]};
  if (found.empty())
    throw ConfigError("no live run below runs/: give the folder of a run, or HOST:PORT of its statistics");
  std::string names;
  for (const std::string& folder : found) names += (names.empty() ? "" : ", ") + printable(folder, 200);
  throw ConfigError("several live runs: " + names + "; give the one to show");
}

WatchedRun watched_run(const std::string& text) {
  if (text.empty()) return only_live_run();
  std::error_code unreadable;
  if (text.find(':') != std::string::npos && !std::filesystem::exists(text, unreadable))
    return {.address = parse_address("RUN", text), .folder = ""};
  require_run_folder(text);
  return {.address = std::nullopt, .folder = text};
}

// Of the terminal, or those that a variable gives; SIZE_MAX where nothing limits them.
size_t columns_of_output() {
  if (line_columns() != SIZE_MAX) return line_columns();
  if (isatty(STDOUT_FILENO) == 1) return terminal_size().columns;
  const char* text = std::getenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  size_t columns = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), columns);
  return columns == 0 ? SIZE_MAX : columns;
}

int print_once(const WatchedRun& run) {
  const SignalPipe signals;
  RunWatch watch(run);
  watch.begin({signals.descriptor()}, /*history=*/true);
  if (SignalPipe::asked()) return kExitInterrupted;
  std::cout << plain_frame(watch.model(), columns_of_output(), /*ascii=*/false);
  return 0;
}

void print_report(const StatsSnapshot& snapshot) {
  std::cout << fitted(console_line(snapshot, line_columns()), SIZE_MAX) << std::endl;
}

// One line for each report, until the run ends.
int print_lines(const WatchedRun& run) {
  const SignalPipe signals;
  RunWatch watch(run);
  watch.on_snapshot(print_report);
  watch.begin({signals.descriptor()}, /*history=*/false);
  const TopModel& model = watch.model();
  if (model.link != Link::live && model.newest) print_report(*model.newest);
  while (!SignalPipe::asked() && std::cout && (model.link == Link::live || model.link == Link::connecting))
    watch.wait(kTick, {signals.descriptor()});
  if (SignalPipe::asked()) return kExitInterrupted;
  const bool ended = model.link == Link::ended || (model.newest && model.newest->training_ended);
  if (!ended) print_error("troupe: " + std::string(model.link == Link::lost ? "connection lost: " : "") + model.note);
  if (ended) std::cout << (model.link == Link::ended ? fitted(model.note, SIZE_MAX) : state_text(model)) << std::endl;
  return ended ? 0 : kExitFailure;
}

// Changes what is shown. Whether to go on.
bool obey(const Pressed& pressed, TopView& view, TopView& before_help) {
  constexpr auto kViews = static_cast<unsigned>(TopView::help);  // without the help
  const auto current = static_cast<unsigned>(view == TopView::help ? before_help : view);
  switch (pressed.key) {
    case Key::quit: return false;
    case Key::next: view = static_cast<TopView>((current + 1) % kViews); break;
    case Key::previous: view = static_cast<TopView>((current + kViews - 1) % kViews); break;
    case Key::view: view = pressed.view; break;
    case Key::help:
      if (view != TopView::help) before_help = view;
      view = view == TopView::help ? before_help : TopView::help;
      break;
    case Key::resize:
    case Key::other: break;
  }
  return true;
}

int show_on_screen(const WatchedRun& run) {
  const SignalPipe signals;
  RunWatch watch(run);
  watch.begin({signals.descriptor()}, /*history=*/false);
  if (SignalPipe::asked()) return kExitInterrupted;
  const bool keyboard = isatty(STDIN_FILENO) == 1;
  const std::vector<int> others = {signals.descriptor(), keyboard ? STDIN_FILENO : -1};
  Screen screen;
  TopView view = TopView::overview, before_help = view;
  while (!SignalPipe::asked()) {
    screen.draw(frame(watch.model(), view, screen.size()));
    watch.wait(kTick, others);
    while (const std::optional<Pressed> pressed = screen.pressed())
      if (!obey(*pressed, view, before_help)) return 0;
  }
  return kExitInterrupted;
}

int run_top(const TopOptions& options) {
  const WatchedRun run = watched_run(options.run);
  if (!run.folder.empty())
    for (const std::string& damaged : damaged_files(posix_disk(), run.folder)) warn(damaged);
  if (options.once) return print_once(run);
  if (isatty(STDOUT_FILENO) != 1) return print_lines(run);
  if (const std::string_view why = no_screen(); !why.empty()) {
    warn(std::string(why));
    return print_lines(run);
  }
  return show_on_screen(run);
}

}  // namespace

Command top_command() {
  return {.name = "top",
          .summary = "show a live run in the terminal",
          .examples =
              "  troupe top\n"
              "  troupe top runs/cartpole\n"
              "  troupe top 127.0.0.1:4711\n"
              "  troupe top runs/cartpole --once\n",
          .exit_codes = {{0, "q was pressed, or the run ended where the output is no terminal"},
                         {1,
                          "the run was killed or the connection lost where the output is no terminal, or it "
                          "cannot be written"},
                         {2, "a mistake in the command, no run there, or several live runs"},
                         {130, "a signal ended it"}},
          .parse = read_then_run<read_top, run_top>};
}

}  // namespace troupe
