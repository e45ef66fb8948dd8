// Every advantage estimator and every surrogate has a config file in configs/algorithms/ and a score to reach.
// algorithms_nightly_test.cpp trains them.

#include <filesystem>
#include <set>
#include <string>

#include "algorithms/advantages/advantages.h"
#include "algorithms/losses/surrogate.h"
#include "tests/learn/algorithm_bars.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::set<std::string> run_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("configs/algorithms"))
    names.insert(entry.path().stem().string());
  return names;
}

}  // namespace

TEST_CASE(
    "algorithms: every estimator and surrogate of the tables has a config file, and every config file a score to "
    "reach") {
  std::set<std::string> wanted;
  for (const AdvantageEntry& entry : advantage_table()) wanted.insert("advantage_" + std::string(entry.name));
  for (const SurrogateEntry& entry : surrogate_table()) wanted.insert("surrogate_" + std::string(entry.name));
  CHECK(run_files() == wanted);
  std::set<std::string> scored;
  for (const auto& [name, bar] : test::algorithm_bars()) scored.insert(name);
  CHECK(scored == wanted);
}
