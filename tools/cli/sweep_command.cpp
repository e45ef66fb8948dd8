// `troupe sweep`: trains a config with several values of its settings and several seeds, and ranks them.

#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <set>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tools/cli/command.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/found_runs.h"
#include "tools/cli/group_report.h"
#include "tools/cli/launch.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/sweep_points.h"
#include "tools/cli/sweep_runs.h"
#include "tools/cli/terminal.h"
#include "tools/cli/this_command.h"

namespace troupe {
namespace {

constexpr int64_t kMostSeeds = 10'000, kMostJobs = 256, kMostPoints = 10'000;
constexpr size_t kMostRuns = 10'000;

struct SweepOptions {
  std::string config, folder;
  Words settings, tags;
  int64_t seeds = 1, jobs = 1;
  std::optional<int64_t> random;
  std::optional<uint64_t> seed;
};

SweepOptions read_sweep(Flags& flags) {
  SweepOptions options;
  flags.argument("CONFIG", options.config, any_text, "config file, or name of a built-in one, like cartpole");
  flags.repeatable("--set", "PATH=VALUE", options.settings,
                   "a setting of all runs, or its values: PATH=[1e-4, 3e-4] (of a setting that is a list, a list of "
                   "lists), with --random also a range: PATH=1e-5..1e-3; repeatable, all combinations are trained");
  flags.option("--random", "N", options.random, integer_in(1, kMostPoints),
               "draw N combinations instead of training all: from lists, and from ranges (log-uniform if both limits "
               "are above 0); the same --seed draws the same ones");
  flags.option("--seeds", "N", options.seeds, integer_in(1, kMostSeeds),
               "train each combination with N seeds (default: 1)");
  flags.option("--seed", "N", options.seed, parse_seed, "the first seed (default: the config's)");
  flags.option("--jobs", "N", options.jobs, integer_in(1, kMostJobs), "how many runs train at a time (default: 1)");
  flags.option("--run", kFolderType, options.folder, path_to("a folder"),
               "folder for the folders of the runs (default: runs/NAME_sweep, NAME as of `troupe train`)");
  flags.repeatable("--tag", "TAG", options.tags, "a tag of all runs, as of `troupe train`; repeatable");
  flags.hint("--group", "the table at the end ranks what is swept; `troupe runs DIR --group SETTING` ranks others");
  flags.read();
  for (const std::string& tag : options.tags) parse_tag("--tag", tag);
  return options;
}

Words settings_of(const SweptSettings& swept, const SweepPoint& point) {
  Words settings = swept.fixed;
  for (size_t i = 0; i < point.size(); ++i) settings.push_back(swept.swept[i].path + '=' + point[i]);
  return settings;
}

SweepRun run_of(const SweepOptions& options, const std::string& folder, const SweptSettings& swept,
                const SweepPoint& point, uint64_t seed) {
  const Words settings = settings_of(swept, point);
  SweepRun run;
  run.name = run_name_of(swept.swept, point, seed);
  run.folder = folder + '/' + run.name;
  run.config = to_json(load_run_config(options.config, settings, seed));
  run.command = {program_folder() + "/troupe", "train", options.config, "--run", run.folder, "--seed",
                 std::to_string(seed)};
  for (const std::string& setting : settings) run.command.insert(run.command.end(), {"--set", setting});
  for (const std::string& tag : options.tags) run.command.insert(run.command.end(), {"--tag", tag});
  return run;
}

std::vector<SweepPoint> points_of(const SweepOptions& options, const SweptSettings& swept) {
  return options.random ? random_points(swept.swept, static_cast<size_t>(*options.random), options.seed.value_or(0))
                        : grid_of(swept.swept);
}

// Every config is read, so that a mistake in one of them is told before the first run.
std::vector<SweepRun> runs_of(const SweepOptions& options, const SweptSettings& swept,
                              const std::vector<SweepPoint>& points, const std::string& folder, uint64_t first_seed) {
  const auto seeds = static_cast<size_t>(options.seeds);
  if (points.size() > kMostRuns / seeds)
    throw ConfigError("sweep: " + format_count(points.size()) + " combinations with " + format_counted(seeds, "seed") +
                      " each are more than " + format_count(kMostRuns) + " runs");
  std::vector<SweepRun> runs;
  std::set<std::string> names;
  for (const SweepPoint& point : points)
    for (size_t i = 0; i < seeds; ++i) {
      runs.push_back(run_of(options, folder, swept, point, first_seed + i));
      if (!names.insert(runs.back().name).second)
        throw ConfigError("--set: two combinations would have the folder " + printable(runs.back().folder, 200) +
                          "; their values differ only in characters that a folder's name does not have");
    }
  return runs;
}

std::unique_ptr<FileLock> lock_folder(const std::string& folder) {
  try {
    posix_disk().make_directory(folder);
    return posix_disk().lock(folder + "/sweep.lock");
  } catch (const IoError& refused) {
    throw ConfigError(std::string("--run: ") + refused.what());
  }
}

void print_ranking(const std::vector<SweepRun>& runs, const SweptSettings& swept) {
  Words folders, paths;
  for (const SweepRun& run : runs)
    if (posix_disk().exists(run.folder + "/config.json")) folders.push_back(run.folder);
  if (folders.empty()) return;
  for (const SweptSetting& setting : swept.swept) paths.push_back(setting.path);
  const FoundRuns found = find_runs(folders);
  const size_t width = isatty(STDOUT_FILENO) != 0 ? terminal_size().columns : line_columns();
  std::cout << group_table(rank_groups(found.runs, paths), width) << std::flush;
  print_problems(found.problems);
}

// Wakes run_sweep() when a signal asks to stop.
void ask(const Descriptor& stop) {
  const uint64_t one = 1;
  if (::write(stop.number(), &one, sizeof one) < 0) return;  // it is readable already
}

int close_sweep(const SweepOutcome& outcome, size_t runs) {
  for (const std::string& line : outcome.failed) print_error("troupe: " + line);
  if (outcome.stopped) {
    print_line("stopped: " + format_count(outcome.finished) + " of " + format_counted(runs, "run") +
               " have finished. To resume: " + this_command());
    return kExitInterrupted;
  }
  return outcome.failed.empty() ? 0 : kExitFailure;
}

int sweep(const SweepOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);  // the runs continue if the reader of this console ends
  StopSignals signals("stopped before a run began; nothing was written");
  const SweptSettings swept = parse_swept(options.settings, options.random.has_value());
  const std::vector<SweepPoint> points = points_of(options, swept);
  const RunConfig base = load_run_config(options.config, settings_of(swept, points.front()));
  const std::string folder = options.folder.empty() ? "runs/" + base.name + "_sweep" : options.folder;
  const std::vector<SweepRun> runs = runs_of(options, swept, points, folder, options.seed.value_or(base.seed));
  const std::unique_ptr<FileLock> lock = lock_folder(folder);
  const Descriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stop.number() < 0) throw IoError("sweep", "cannot make an eventfd", errno);
  signals.begin([&stop](int signal) {
    ask(stop);
    return "stopping at " + signal_name(signal) + ": the runs write their checkpoints\n";
  });
  print_line("sweep      " + folder + ": " + format_counted(runs.size(), "run") + ", " +
             format_count(static_cast<uint64_t>(options.jobs)) + " at a time; to watch them: troupe dash " + folder);
  const SweepOutcome outcome = run_sweep(runs, static_cast<size_t>(options.jobs), stop);
  signals.end();
  print_ranking(runs, swept);
  return close_sweep(outcome, runs.size());
}

}  // namespace

Command sweep_command() {
  return {.name = "sweep",
          .summary = "train a config with several values of its settings, and rank them",
          .examples =
              "  troupe sweep cartpole --set 'trainer.policy_lr=[3e-4, 1e-3]' --seeds 3\n"
              "  troupe sweep cartpole --set trainer.policy_lr=1e-5..1e-2 --random 20 --jobs 2\n"
              "  troupe sweep my_run.json --set 'model.hidden=[[64], [64, 64]]'\n",
          .exit_codes = {{0, "all runs have reached their limits; run the same command again to resume"},
                         {1, "a run failed; the others were trained, and those that failed are named"},
                         {2, "a mistake in the command or a config, or another sweep uses the folder"},
                         {130, "stopped by a signal"}},
          .parse = read_then_run<read_sweep, sweep>};
}

}  // namespace troupe
