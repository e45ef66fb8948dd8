#pragma once
// The runs that the arguments of a command name. Plain functions; main thread.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/run_folder/run_overview.h"
#include "tools/cli/flags.h"

namespace troupe {

struct FoundRuns {
  std::vector<RunOverview> runs;
  Words problems;  // a line for each folder that cannot be used
};

// The runs in these folders, in their order: a folder of a run is that run, another one stands for the runs in it and
// in its folders. Their overviews have the mean speed. Folders without runs are left out, with one problem for all in
// one argument. Throws ConfigError when a folder is missing, or when no folder has a run.
FoundRuns find_runs(const Words& folders);

// The overview of the run in this folder, with its mean speed. Throws ConfigError and IoError as read_overview().
RunOverview read_run(const std::string& folder, const HeldLocks& held);
// The folders of runs in a folder that is none itself, and in its folders, in their order; hidden ones are left out.
struct RunFolders {
  Words runs;
  Words others;  // names of its folders that neither are runs nor have any
};
// Throws IoError when the folder cannot be read.
RunFolders run_folders(const std::string& folder);
// Whether a folder looks like that of a run.
bool has_config(const std::string& folder);
// "runs: 2 folders have no runs and are left out: notes, plots".
std::string others_text(const std::string& folder, const Words& others);

// Prints the problems on stderr.
void print_problems(const Words& problems);

// What `env_steps` counts in runs on environments, on answers, or on both: "env steps", "answers", or both words.
std::string_view steps_word(bool environments, bool answers);
std::string_view steps_word(std::span<const RunOverview> runs);

// The name of RunOverview::mean_speed of runs on environments, on answers, or on both.
std::string_view speed_word(bool environments, bool answers);

// The settings in which each of the runs differs from the others of its name.
std::vector<SettingValues> differences(const std::vector<RunOverview>& runs);
// "trainer.policy_lr=0.001 seed=2", without the settings in `without`.
std::string settings_text(const SettingValues& settings, const Words& without = {});

}  // namespace troupe
