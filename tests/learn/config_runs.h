#pragma once
// Training runs of the files in configs/ that have to reach a score: with one seed by default; with
// TROUPE_ALL_SEEDS=1, with all seeds and within the seconds that docs/results.md states. No seed here is one that a
// config was tuned on.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace troupe::test {

using Json = nlohmann::json;

// Trains a config of configs/ and returns the summary of the run. The name of the test case must begin with
// "configs: CONFIG ", because configs_entries_test.py finds the trained configs by these names.
Json train_config(const std::string& config, const std::vector<std::string>& settings = {});

// Checks that every sample is accounted for, and that none was older than the limit.
void check_ledger(const Json& summary);

struct Bar {
  std::string config;
  std::string score = "return_mean";
  double least = 0;    // the score that every seed must reach, or with mean_of their mean
  int seeds = 5;       // with TROUPE_ALL_SEEDS=1; else 1, or mean_of
  int mean_of = 0;     // seeds, of a config whose scores differ much between them; 0 = each seed by itself
  double seconds = 0;  // the limit of each run, checked with TROUPE_ALL_SEEDS=1; 0 = no limit
  std::vector<std::string> settings = {};
};

// Trains the config with its seeds and checks the scores, that no alarm is raised, and that few samples are dropped.
// Returns the summary of the last run.
Json check_learns(const Bar& bar);

}  // namespace troupe::test
