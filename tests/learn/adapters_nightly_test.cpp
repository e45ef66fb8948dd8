// Adapters of a token_transformer, trained from a base that has learned a part of the task.

#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/run_command.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe::test;

namespace {

// Trains configs/token_transformer.json and returns the success rate of its evaluation.
double success_of(const std::string& run, const std::vector<std::string>& settings) {
  std::vector<std::string> command = {
      built_program("troupe"), "train", "token_transformer", "--run", run, "--seed", "1001"};
  for (const std::string& setting : settings) command.insert(command.end(), {"--set", setting});
  const CommandResult result = run_command(command);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return nlohmann::json::parse(std::ifstream(run + "/summary.json")).at("eval").at("success_rate");
}

}  // namespace

TEST_CASE("adapters: token_transformer reaches the target with adapters of a base that misses it") {
  const TempFolder folder;
  const double base = success_of(folder / "base", {"stop.env_steps=100000"});
  const std::string lora =
      R"(model.lora={"rank": 8, "targets": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]})";
  const double adapted =
      success_of(folder / "adapted", {"model.path=" + (folder / "base"), lora, "stop.env_steps=300000"});
  MESSAGE("success_rate of the base " << base << ", with adapters " << adapted);
  CHECK(base < 0.7);
  CHECK(adapted >= 0.85);
}
