// Runs each benchmark for a second: one JSON object with the documented keys and plausible figures. Whether the figures
// are good is not checked here: docs/performance.md has the bars and the measurements.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/run_command.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using nlohmann::json;

json bench(const std::string& name, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> command{test::built_program("troupe"), "bench", name, "--seconds", "1", "--json"};
  command.insert(command.end(), flags.begin(), flags.end());
  const test::CommandResult result = test::run_command(command);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(result.out.find('\n') == result.out.size() - 1);
  return json::parse(result.out);
}

void check_between(const json& value, double low, double high) {
  REQUIRE(value.is_number());
  CHECK(value.get<double>() > low);
  CHECK(value.get<double>() < high);
}

}  // namespace

TEST_CASE("bench sampling: rates in process and over loopback, compared with the bare policy") {
  const json result = bench("sampling");
  for (const char* way : {"in_process", "loopback"}) {
    check_between(result.at(way).at("ratio_to_forward"), 0, 10);
    check_between(result.at(way).at("rows_per_second"), 1e3, 1e9);
    check_between(result.at(way).at("cpu_us_per_batch"), 0, 1e6);
  }
  CHECK(result.at("batch_rows") > 0);
  check_between(result.at("forward").at("rows_per_second"), 1e3, 1e9);
}

TEST_CASE("bench inference: a round trip with its forward pass, and a deadline that is never early") {
  const json result = bench("inference");
  CHECK(result.at("rows") == 64);
  check_between(result.at("forward_p50_us"), 0, 1e5);
  check_between(result.at("round_trip_p50_us"), 0, 1e6);
  // Other programs may slow either of the two, so the difference has no limit here.
  CHECK(result.at("overhead_p50_us").get<double>() ==
        doctest::Approx(result.at("round_trip_p50_us").get<double>() - result.at("forward_p50_us").get<double>()));
  CHECK(result.at("round_trip_p99_us") >= result.at("round_trip_p50_us"));
  CHECK(result.at("at_deadline_p50_us") > result.at("deadline_us"));
  CHECK(result.at("at_deadline_p99_us") >= result.at("at_deadline_p50_us"));
}

TEST_CASE("bench trainer: the cost over a bare loop, and the share of time spent waiting") {
  const json result = bench("trainer");
  check_between(result.at("ratio_to_bare_loop"), 0.1, 10);
  check_between(result.at("wait_fraction"), 0, 1);
  check_between(result.at("update_ms"), 0, 1e5);
}

TEST_CASE("bench trainer --ranks: updates on one rank and on two processes, and what a limited connection costs") {
  const json result = bench(
      "trainer", {"--ranks", "2", "--link", "1000", "--hidden", "16,16", "--observations", "4", "--minibatch", "64"});
  CHECK(result.at("minibatch") == 64);
  CHECK(result.at("turns") >= 1);
  const double one = result.at("one_rank").at("update_ms"), two = result.at("several_ranks").at("update_ms");
  check_between(one, 0, 1e5);
  check_between(two, 0, 1e5);
  CHECK(result.at("one_rank").at("exchange_ms") == 0);
  check_between(result.at("several_ranks").at("exchange_ms"), 0, two);
  check_between(result.at("ratio_of_one_to_several"), 0, 100);
  const json& link = result.at("link");
  // Each of four steps sends all gradients up, and their sums down; the samples of a shard go down too.
  const double gradients = result.at("gradient_bytes");
  CHECK(link.at("up_bytes") > 4 * gradients);
  CHECK(link.at("down_bytes") > 4 * gradients + 4 * 32 * 4 * sizeof(float));
  check_between(link.at("down_bytes"), 0, 100 * gradients + 1e6);
  const double transfers = link.at("up_ms").get<double>() + link.at("down_ms").get<double>();
  CHECK(link.at("hidden_of_both_directions").get<double>() ==
        doctest::Approx(1 - link.at("added_ms").get<double>() / transfers));
  CHECK(link.at("added_ms") < link.at("update_ms"));
}

TEST_CASE("bench trainer --exchange: the time of a round between two processes") {
  const json result = bench("trainer", {"--exchange", "40000"});
  CHECK(result.at("bytes") == 40'000);
  CHECK(result.at("rounds") > 10);
  check_between(result.at("round_p50_us"), 10, 1e6);
  CHECK(result.at("round_p99_us") >= result.at("round_p50_us"));
}

TEST_CASE("bench balance: differencing is never less balanced than greedy, nor better than the lower bound") {
  const json result = bench("balance");
  CHECK(result.at("cases").size() == 12);
  for (const json& c : result.at("cases")) {
    check_between(c.at("sequences_per_second"), 1e3, 1e9);
    check_between(c.at("greedy_seconds"), 0, 10);
    CHECK(c.at("imbalance") >= c.at("imbalance_lower_bound"));
    CHECK(c.at("greedy_imbalance") >= c.at("imbalance"));
  }
}

TEST_CASE("bench gae and vtrace: bandwidth and its limit for every layout and instruction set") {
  for (const char* name : {"gae", "vtrace"}) {
    const json result = bench(name);
    std::set<std::string> seen;
    for (const json& c : result.at("cases")) {
      check_between(c.at("gb_per_s"), 0, 1e4);
      check_between(c.at("limit_gb_per_s"), 0, 1e4);
      check_between(c.at("ratio_to_limit"), 0, 100);
      seen.insert(c.at("layout").get<std::string>() + c.at("isa").get<std::string>());
    }
    CHECK(seen.count("BTsse2") == 1);
    CHECK(seen.count("TBsse2") == 1);
  }
}

TEST_CASE("bench weights: the speed of the channel, compared with a bare broadcast of the same bytes") {
  const json result = bench("weights");
  CHECK(result.at("backend") == "gloo");
  CHECK(result.at("bytes") == 100'000'000);
  check_between(result.at("ratio_to_bare_broadcast"), 0, 10);
  check_between(result.at("channel_seconds"), 0, 60);
}

TEST_CASE("bench --plot: a file that cannot be written is refused before measuring") {
  const test::TempFolder folder;
  const auto refusal = [&](const std::string& file) {
    const test::CommandResult result =
        test::run_command({test::built_program("troupe"), "bench", "gae", "--seconds", "60", "--plot", file});
    CHECK(result.exit_code == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    return result.err;
  };
  CHECK(refusal(folder / "missing/gae.svg").find("No such file or directory") != std::string::npos);
  CHECK(refusal(folder.path()).find("is a folder") != std::string::npos);
  const std::string notes = folder / "notes.txt";
  std::ofstream(notes) << "kept";
  CHECK(refusal(notes).find("exists and is not a picture of troupe bench") != std::string::npos);
}

TEST_CASE("bench bridge: environments in Python, compared with a loop in Python") {
  if (test::run_program("python3 -c 'import gymnasium' 2>/dev/null").exit_code != 0) {
    MESSAGE("skipped: python3 has no gymnasium");
    return;
  }
  const json result = bench("bridge");
  for (const char* rows : {"rows32", "rows8"}) {
    check_between(result.at(rows).at("ratio"), 0, 10);
    check_between(result.at(rows).at("bridge_steps_per_second"), 100, 1e9);
    check_between(result.at(rows).at("loop_steps_per_second"), 100, 1e9);
  }
}

TEST_CASE("bench mujoco: environments of MuJoCo, compared with a loop around MuJoCo and with Gymnasium") {
  if (test::run_command({test::built_program("troupe"), "envs", "mujoco:Hopper-v5"}).exit_code != 0) {
    MESSAGE("skipped: tools/fetch_mujoco has not been run");
    return;
  }
  const json result = bench("mujoco");
  for (const char* name : {"HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5"}) {
    check_between(result.at(name).at("steps_per_cpu_second"), 10, 1e9);
    check_between(result.at(name).at("loop_steps_per_cpu_second"), 10, 1e9);
    check_between(result.at(name).at("ratio_to_loop"), 0, 10);
    if (!result.at(name).at("ratio_to_gymnasium").is_null())
      check_between(result.at(name).at("ratio_to_gymnasium"), 0, 100);
  }
}

TEST_CASE("bench: without troupe-bench beside troupe, one line names the target to build") {
  const test::TempFolder folder;
  const std::string program = folder / "troupe";
  std::filesystem::copy_file(test::built_program("troupe"), program);
  const test::CommandResult result = test::run_command({program, "bench", "gae"});
  CHECK(result.exit_code == 2);
  CHECK(result.err.ends_with("`troupe bench` needs it beside troupe: build the target troupe-bench\n"));
  CHECK(result.err.find('\n') == result.err.size() - 1);
}

TEST_CASE("bench replay: the time of draws over the stored samples, and of credits over the workers") {
  const json result = bench("replay");
  REQUIRE(result.at("draw").size() == 4);
  CHECK(result.at("draw").back().at("samples") == 10'000'000);
  for (const json& draw : result.at("draw")) check_between(draw.at("us_per_draw"), 0, 1e6);
  REQUIRE(result.at("credit").size() == 4);
  CHECK(result.at("credit").back().at("workers") == 4096);
  for (const json& credit : result.at("credit")) check_between(credit.at("us_per_credit"), 0, 1e6);
}

TEST_CASE("bench stats: what a step records costs less than half a percent of it") {
  const json result = bench("stats");
  check_between(result.at("histogram_ns"), 0.1, 1e4);
  check_between(result.at("handler_ns"), 0.1, 1e5);
  check_between(result.at("step_us"), 0.01, 1e4);
  check_between(result.at("share_of_events"), 1e-7, 0.005);
  check_between(result.at("share_of_stats_actors"), 1e-6, 0.5);
  check_between(result.at("snapshot_json_us"), 1, 1e6);
}

TEST_CASE("bench micro_batches: three ways to cut the same answers, of which padding computes more tokens") {
  const json result = bench("micro_batches");
  CHECK(result.at("answers") == 128);
  for (const json& of_threads : result.at("cases")) {
    for (const char* cut : {"balanced", "by_number", "padded"}) {
      check_between(of_threads.at(cut).at("tokens_per_second"), 10, 1e9);
      check_between(of_threads.at(cut).at("time_relative_to_balanced"), 0, 1e3);
    }
    CHECK(of_threads.at("balanced").at("micro_batches") < of_threads.at("by_number").at("micro_batches"));
    CHECK(of_threads.at("by_number").at("micro_batches") < of_threads.at("padded").at("micro_batches"));
    CHECK(of_threads.at("by_number").at("computed_tokens") < of_threads.at("padded").at("computed_tokens"));
  }
}

TEST_CASE("bench lag_figures: the figures are of all tokens of the step") {
  const json result = bench("lag_figures");
  for (const json& of_threads : result.at("cases")) {
    CHECK(of_threads.at("measured_tokens") == result.at("answer_tokens"));
    check_between(of_threads.at("figures").at("time_relative_to_step"), 0.1, 10);
    check_between(of_threads.at("figures_and_start").at("time_relative_to_step"), 0.1, 10);
  }
}
