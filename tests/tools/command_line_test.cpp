#include "tools/cli/command_line.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tools/cli/bench_command.h"
#include "tools/cli/commands.h"
#include "tools/cli/eval_command.h"
#include "tools/cli/inference_command.h"
#include "tools/cli/output_file.h"
#include "tools/cli/play_command.h"
#include "tools/cli/train_command.h"
#include "tools/cli/warmup_command.h"

using namespace troupe;

namespace {

using Values = std::map<std::string, Words>;

// The values that a command has read from its command line.
Values values_of(const Words& words) {
  std::ostringstream out;
  const auto line = parse_command_line(all_commands(), words, out);
  REQUIRE(line.has_value());
  REQUIRE(line->command.name == words.front());
  REQUIRE(out.str() == "");
  return line->values;
}

// The same for one flag with at most one value; "" without a value.
std::string value_of(const char* flag, const Words& words) {
  const Words values = values_of(words).at(flag);
  REQUIRE(values.size() <= 1);
  return values.empty() ? "" : values.front();
}

// The options that `read` makes from the words after the command's name.
template <auto read>
auto options_of(const Words& words) {
  Flags flags("command", "", words);
  return read(flags);
}

}  // namespace

TEST_CASE("command_line: train takes its options before and after the config") {
  const TrainOptions options = options_of<read_train>({"--set", "a.b=1", "cartpole", "--seed=7", "--set", "c.d=[1, 2]",
                                                       "--run", "runs/x", "--listen", "0.0.0.0:5", "--stats", "6"});
  CHECK(options.config == "cartpole");
  CHECK(options.run_dir == "runs/x");
  CHECK(options.seed == 7);
  CHECK(options.overrides == Words{"a.b=1", "c.d=[1, 2]"});
  CHECK(options.listen == Address{"0.0.0.0", 5});
  CHECK(options.stats == Address{"127.0.0.1", 6});
}

TEST_CASE("command_line: train listens on free ports of loopback unless told otherwise") {
  const TrainOptions options = options_of<read_train>({"cartpole"});
  CHECK(options.listen == Address{"127.0.0.1", 0});
  CHECK(options.stats == Address{"127.0.0.1", 0});
  CHECK(!options.seed.has_value());
  CHECK(options.run_dir.empty());
}

TEST_CASE("command_line: the other commands that compute carry their values") {
  CHECK(options_of<read_inference>({"--connect", "h:1", "--wait=60"}).wait == 60);
  CHECK(options_of<read_inference>({"--connect", "[::1]:80"}).connect == Address{"::1", 80});
  CHECK(!options_of<read_eval>({"r"}).episodes.has_value());
  const EvalOptions eval = options_of<read_eval>({"r", "--episodes", "3", "--json"});
  CHECK((eval.run_dir == "r" && eval.episodes == 3 && eval.json && !eval.seed.has_value()));
  const EvalOptions sampled =
      options_of<read_eval>({"r", "--answers", "8", "--temperature", "0.5", "--answers-file", "a.jsonl"});
  CHECK(options_of<read_eval>({"r", "--temperature", "0"}).temperature == 0.0);
  CHECK(options_of<read_eval>({"r", "--set", "model.path=m", "--set", "tokenizer.path=t"}).moved ==
        Words{"model.path=m", "tokenizer.path=t"});
  CHECK((sampled.answers == 8 && sampled.temperature == 0.5 && sampled.answers_file == "a.jsonl"));
  CHECK(options_of<read_warmup>({"c", "--set", "warmup.steps=5"}).overrides ==
        Words{"warmup.steps=5", "stop.after_warmup=true"});
  CHECK(options_of<read_play>({"r"}).episodes == 1);
  const PlayOptions play = options_of<read_play>({"r", "--prompt", "3>", "--temperature", "0.5", "--episodes", "4"});
  CHECK((play.prompt == "3>" && play.temperature == 0.5 && !play.greedy && play.episodes == 4));
  CHECK(options_of<read_bench>({"trainer", "--seconds", "0.5"}).seconds == 0.5);
  CHECK(options_of<read_bench>({"gae"}).seconds == 5);
  const TrainerBenchOptions ranks = options_of<read_bench>({"trainer", "--ranks", "3", "--link", "100", "--hidden",
                                                            "8,16", "--observations", "5", "--minibatch", "32"})
                                        .trainer;
  CHECK((ranks.ranks == 3 && ranks.link == 100 && ranks.observations == 5 && ranks.minibatch == 32));
  CHECK(ranks.hidden.sizes == std::vector<int64_t>{8, 16});
  CHECK(ranks.hidden.text() == "8,16");
  CHECK(options_of<read_bench>({"trainer", "--exchange", "40000"}).trainer.exchange == 40'000);
}

TEST_CASE("command_line: the commands that need no LibTorch carry their values") {
  CHECK(value_of("--count", {"worker", "--connect", "h:1"}) == "1");
  CHECK(value_of("--count", {"worker", "--connect", "h:1", "--count", "4"}) == "4");
  CHECK(value_of("--wait", {"worker", "--connect", "h:1"}) == "");
  CHECK(value_of("--wait", {"worker", "--connect", "h:1", "--wait", "0"}) == "0");
  CHECK(value_of("--connect", {"worker", "--connect", "[::1]:80"}) == "[::1]:80");
  CHECK(value_of("--listen", {"node", "--listen", "80"}) == "127.0.0.1:80");
  CHECK(values_of({"spawn", "--node", "a:1", "--workers", "8", "--run", "b:2"}) ==
        Values{{"--node", {"a:1"}}, {"--workers", {"8"}}, {"--run", {"b:2"}}});
  CHECK(value_of("--json", {"envs", "--json"}) == "true");
  CHECK(value_of("--json", {"envs"}) == "false");
  CHECK(values_of({"config", "cartpole", "--set", "a=1", "--set", "b=2"}).at("--set") == Words{"a=1", "b=2"});
}

TEST_CASE("command_line: simulate takes one seed or a range, ends included") {
  CHECK(value_of("--seeds", {"simulate", "--seeds", "3..18446744073709551615"}) == "3..18446744073709551615");
  CHECK(value_of("--seeds", {"simulate", "--seeds", "007..9"}) == "7..9");
  const Values one = values_of({"simulate", "--seed", "42", "--verbose"});
  CHECK(one.at("--seed") == Words{"42..42"});
  CHECK(one.at("--verbose") == Words{"true"});
}

TEST_CASE("command_line: simulate looks for a deliberate bug in the first 400 seeds or in those that are given") {
  CHECK(value_of("--seeds", {"simulate", "--mutate", "credit_lost"}) == "1..400");
  CHECK(value_of("--mutate", {"simulate", "--mutate", "credit_lost"}) == "credit_lost");
  CHECK(value_of("--seeds", {"simulate", "--mutate", "credit_lost", "--seeds", "3..9"}) == "3..9");
  CHECK(value_of("--mutate", {"simulate", "--seed", "1"}) == "");
}

TEST_CASE("command_line: the action of a command depends on its flags") {
  std::ostringstream out;
  const auto line = parse_command_line(all_commands(), {"version"}, out);
  REQUIRE(line.has_value());
  CHECK(line->action() == 0);
  CHECK(line->command.done_by.empty());
}

Words commands_done_by(std::string_view program) {
  Words names;
  for (const Command& command : all_commands())
    if (command.done_by == program) names.emplace_back(command.name);
  return names;
}

TEST_CASE("command_line: other programs run the commands that compute, and those that measure or test troupe") {
  CHECK(commands_done_by("troupe-learn") == Words{"train", "warmup", "inference", "scorer", "rank", "eval", "play"});
  CHECK(commands_done_by("troupe-bench") == Words{"bench", "simulate"});
}

TEST_CASE("address: text reads back as the same address") {
  for (const Address& address : {Address{"localhost", 1}, Address{"::1", 65535}, Address{"10.0.0.1", 80}})
    CHECK(parse_address("--connect", address.text()) == address);
}

TEST_CASE("address: one that means all addresses of a machine is shown with the name of the machine") {
  CHECK(address_for_others({"0.0.0.0", 5555}, "trainer") == "trainer:5555");
  CHECK(address_for_others({"::", 5555}, "trainer") == "trainer:5555");
  CHECK(address_for_others({"0.0.0.0", 5555}, "") == "HOST:5555");
  CHECK(address_for_others({"0.0.0.0", 5555}, "localhost.localdomain") == "HOST:5555");
  CHECK(address_for_others({"::1", 5555}, "trainer") == "[::1]:5555");
  CHECK(address_for_others({"10.0.0.1", 5555}, "trainer") == "10.0.0.1:5555");
}

TEST_CASE("output file: a device or a pipe, which would be replaced, is refused") {
  const test::TempFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& name : {pipe, std::string("/dev/null")})
    CHECK_THROWS_WITH_AS(
        require_replaceable("--csv", name, answers_output()),
        ("--csv: " + name + ": is a device or a pipe, which would be replaced; give the name of a file").c_str(),
        ConfigError);
}

TEST_CASE("output file: a link, which would be replaced, is refused") {
  const test::TempFolder folder;
  const std::string file = folder / "answers.jsonl.txt", link = folder / "link", dangling = folder / "dangling";
  std::ofstream(file).flush();
  std::filesystem::create_symlink(file, link);
  std::filesystem::create_symlink(folder / "none", dangling);
  require_replaceable("--answers-file", file, answers_output());
  for (const std::string& name : {link, dangling})
    CHECK_THROWS_WITH_AS(
        require_replaceable("--answers-file", name, answers_output()),
        ("--answers-file: " + name + ": is a link, which would be replaced; give the name of the file itself").c_str(),
        ConfigError);
}
