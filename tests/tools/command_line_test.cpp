#include "tools/cli/command_line.h"

#include <sstream>

#include "tests/support/test.h"

namespace troupe {
namespace {

template <class T>
T parsed(const std::vector<std::string>& words) {
  std::ostringstream out;
  const auto options = parse_command_line(words, out);
  REQUIRE(options.has_value());
  REQUIRE(out.str() == "");
  return std::get<T>(*options);
}

}  // namespace

TEST_CASE("command_line: train takes its options before and after the config") {
  const auto options = parsed<TrainOptions>({"train", "--set", "a.b=1", "cartpole", "--seed=7", "--set", "c.d=[1, 2]",
                                             "--run", "runs/x", "--listen", "0.0.0.0:5", "--stats", "6"});
  CHECK(options.config == "cartpole");
  CHECK(options.run_dir == "runs/x");
  CHECK(options.seed == 7);
  CHECK(options.overrides == std::vector<std::string>{"a.b=1", "c.d=[1, 2]"});
  CHECK(options.listen == Address{"0.0.0.0", 5});
  CHECK(options.stats == Address{"127.0.0.1", 6});
}

TEST_CASE("command_line: train listens on free ports of loopback unless told otherwise") {
  const auto options = parsed<TrainOptions>({"train", "cartpole"});
  CHECK(options.listen == Address{"127.0.0.1", 0});
  CHECK(options.stats == Address{"127.0.0.1", 0});
  CHECK(!options.seed.has_value());
  CHECK(options.run_dir.empty());
}

TEST_CASE("command_line: the other commands carry their values") {
  CHECK(parsed<WorkerOptions>({"worker", "--connect", "h:1"}).count == 1);
  CHECK(parsed<WorkerOptions>({"worker", "--connect", "h:1", "--count", "4"}).count == 4);
  CHECK(!parsed<WorkerOptions>({"worker", "--connect", "h:1"}).wait.has_value());
  CHECK(parsed<WorkerOptions>({"worker", "--connect", "h:1", "--wait", "0"}).wait == 0);
  CHECK(parsed<InferenceOptions>({"inference", "--connect", "h:1", "--wait=60"}).wait == 60);
  CHECK(parsed<InferenceOptions>({"inference", "--connect", "[::1]:80"}).connect == Address{"::1", 80});
  CHECK(parsed<NodeOptions>({"node", "--listen", "80"}).listen == Address{"127.0.0.1", 80});
  const auto spawn = parsed<SpawnOptions>({"spawn", "--node", "a:1", "--workers", "8", "--run", "b:2"});
  CHECK((spawn.node == Address{"a", 1} && spawn.workers == 8 && spawn.run == Address{"b", 2}));
  CHECK(!parsed<EvalOptions>({"eval", "r"}).episodes.has_value());
  CHECK(parsed<EvalOptions>({"eval", "r", "--episodes", "3", "--json"}).episodes == 3);
  CHECK(parsed<PlayOptions>({"play", "r"}).episodes == 1);
  CHECK(parsed<EnvsOptions>({"envs", "--json"}).json);
  CHECK(parsed<BenchOptions>({"bench", "trainer", "--seconds", "0.5"}).seconds == 0.5);
}

TEST_CASE("command_line: simulate takes one seed or a range, ends included") {
  const auto range = parsed<SimulateOptions>({"simulate", "--seeds", "3..18446744073709551615"});
  CHECK((range.first_seed == 3 && range.last_seed == UINT64_MAX));
  const auto one = parsed<SimulateOptions>({"simulate", "--seed", "42", "--verbose"});
  CHECK((one.first_seed == 42 && one.last_seed == 42 && one.verbose));
}

TEST_CASE("address: text reads back as the same address") {
  for (const Address& address : {Address{"localhost", 1}, Address{"::1", 65535}, Address{"10.0.0.1", 80}})
    CHECK(parse_address("--connect", address.text()) == address);
}

}  // namespace troupe
