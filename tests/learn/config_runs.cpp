#include "tests/learn/config_runs.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "tests/support/run_command.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

namespace troupe::test {

namespace {

constexpr int kFirstSeed = 1001;

bool all_seeds() {
  const char* value = std::getenv("TROUPE_ALL_SEEDS");
  return value != nullptr && std::string(value) == "1";
}

struct Trained {
  Json summary;
  std::string alarms;  // their lines in the log
};

// The alarms that were not over at the end, but for that on the speed, which other programs can raise. While a policy
// learns, its return may drop and recover.
std::string alarms_in(std::istream&& log) {
  constexpr std::string_view kAlarm = " stats: alarm ";
  std::map<std::string, std::string> lines;  // by the alarm
  for (std::string line; std::getline(log, line);) {
    const size_t at = line.find(kAlarm);
    if (at == std::string::npos) continue;
    const std::string name = line.substr(at + kAlarm.size(), line.find(' ', at + kAlarm.size()) - at - kAlarm.size());
    if (line.find(" is over at update ") == std::string::npos)
      lines[name] = line;
    else
      lines.erase(name);
  }
  lines.erase("slower");
  std::string alarms;
  for (const auto& [name, line] : lines) alarms += line + '\n';
  return alarms;
}

Trained train(const std::string& config, int seed, const std::vector<std::string>& settings) {
  const std::string name = doctest::getContextOptions()->currentTest->m_name;
  CHECK_MESSAGE(name.starts_with("configs: " + config + ' '), name);
  const TempFolder folder;
  std::vector<std::string> command = {built_program("troupe"), "train", config, "--run", folder / "run", "--seed",
                                      std::to_string(seed)};
  for (const std::string& setting : settings) command.insert(command.end(), {"--set", setting});
  const auto result = run_command(command);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return {Json::parse(std::ifstream(folder / "run/summary.json")), alarms_in(std::ifstream(folder / "run/log.txt"))};
}

}  // namespace

Json train_config(const std::string& config, const std::vector<std::string>& settings) {
  return train(config, kFirstSeed, settings).summary;
}

void check_ledger(const Json& summary) {
  const auto count = [&](const char* state) { return summary.at("ledger").at(state).get<uint64_t>(); };
  uint64_t accounted = 0;
  for (const char* state : {"trained", "dropped_stale", "dropped_full", "lost_in_crash", "left_over", "filtered",
                            "unscored", "verifier_failed", "baselines", "waiting"})
    accounted += count(state);
  CHECK(count("produced") == accounted);
  CHECK(count("trained") > 0);
  CHECK(summary.at("last_start").at("lag").at("max").get<double>() <=
        summary.at("last_start").at("lag").at("cap").get<double>());
}

// A tuned run wastes next to nothing.
static void check_few_dropped(const Json& summary) {
  const Json& ledger = summary.at("ledger");
  const double dropped = ledger.at("dropped_stale").get<double>() + ledger.at("dropped_full").get<double>();
  CHECK(dropped < 0.02 * ledger.at("produced").get<double>());
}

Json check_learns(const Bar& bar) {
  Json summary;
  const int seeds = all_seeds() ? bar.seeds : std::max(bar.mean_of, 1);
  double sum = 0;
  for (int seed = kFirstSeed; seed < kFirstSeed + seeds; ++seed) {
    CAPTURE(seed);
    const Trained trained = train(bar.config, seed, bar.settings);
    summary = trained.summary;
    CHECK(trained.alarms == "");  // a tuned run ends without one
    check_few_dropped(summary);
    const double score = summary.at("eval").at(bar.score), seconds = summary.at("wall_seconds");
    MESSAGE(bar.config << ", seed " << seed << ": " << bar.score << " " << score << " (bar " << bar.least << ") in "
                       << seconds << " s, " << summary.at("mean_env_steps_per_second").get<double>() << " env steps/s");
    sum += score;
    if (bar.mean_of == 0) CHECK(score >= bar.least);
    check_ledger(summary);
    if (all_seeds() && bar.seconds > 0) CHECK(seconds < bar.seconds);
  }
  if (bar.mean_of > 0) CHECK(sum / seeds >= bar.least);
  return summary;
}

}  // namespace troupe::test
