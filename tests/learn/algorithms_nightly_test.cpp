// Every advantage estimator and every surrogate, chosen by name in a config file of configs/algorithms/, trains to its
// score: with one seed by default, with three when TROUPE_ALL_SEEDS=1. No seed here is one that a file was tuned on.

#include <cstdlib>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/learn/algorithm_bars.h"
#include "tests/support/run_command.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe::test;

using Json = nlohmann::json;

namespace {

constexpr int kFirstSeed = 2001;

Json train(const std::string& config, int seed) {
  const TempFolder folder;
  const auto result =
      run_command({built_program("troupe"), "train", config, "--run", folder / "run", "--seed", std::to_string(seed)});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return Json::parse(std::ifstream(folder / "run/summary.json"));
}

}  // namespace

TEST_CASE("algorithms: each config reaches its score") {
  const char* all = std::getenv("TROUPE_ALL_SEEDS");
  const int seeds = all != nullptr && std::string(all) == "1" ? 3 : 1;
  for (const auto& [name, bar] : algorithm_bars()) {
    for (int seed = kFirstSeed; seed < kFirstSeed + seeds; ++seed) {
      CAPTURE(name);
      CAPTURE(seed);
      const Json summary = train("configs/algorithms/" + name + ".json", seed);
      const double score = summary.at("eval").at(bar.score);
      MESSAGE(name << ", seed " << seed << ": " << std::string(bar.score) << " " << score << " (bar " << bar.least
                   << ") in " << summary.at("wall_seconds").get<double>() << " s");
      CHECK(score >= bar.least);
    }
  }
}
