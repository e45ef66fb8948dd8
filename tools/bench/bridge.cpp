// `troupe bench bridge`: environments in Python, compared with a loop in Python around the same environments.

#include <algorithm>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "envs/make/make_env.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/gymnasium_loop.h"
#include "tools/bench/support.h"

namespace troupe {
namespace {

constexpr const char* kEnvironment = "CartPole-v1";
constexpr int64_t kTable = 512;  // steps after which the actions repeat

class Bridge {
 public:
  explicit Bridge(int64_t rows) {
    EnvConfig config;
    config.id = std::string("gym:") + kEnvironment;
    config.rows = rows;
    env_ = make_env(config);
    step_ = EnvStep::allocate(env_->spec(), rows);
    env_->reset(1, 0, step_);
    for (uint64_t t = 0; t < kTable; ++t) {
      Array& actions = actions_.emplace_back(DType::i32, Shape{rows, 1, 1});
      uint64_t i = 0;
      for (int32_t& action : actions.mutable_view<int32_t>())
        action = static_cast<int32_t>((t * 2654435761U + i++ * 40503U) >> 7 & 1);
    }
  }

  double steps_per_second(double seconds) {
    const BenchClock::time_point start = BenchClock::now();
    int64_t steps = 0;
    while (seconds_since(start) < seconds)
      for (int k = 0; k < 64; ++k) {
        env_->step(actions_[at_++ % kTable], step_);
        if (!step_.errors.empty()) throw std::runtime_error(step_.errors.front());
        steps += env_->rows();
      }
    return static_cast<double>(steps) / seconds_since(start);
  }

 private:
  std::unique_ptr<Env> env_;
  EnvStep step_;
  std::vector<Array> actions_;
  size_t at_ = 0;
};

nlohmann::ordered_json compare(int64_t rows, double seconds) {
  constexpr int kTurns = 9;
  const double turn = std::max(0.02, seconds / (2 * kTurns));
  GymnasiumLoop loop(kEnvironment, "{}", rows);
  Bridge bridge(rows);
  std::vector<double> of_loop, of_bridge, ratios;
  loop.run(turn);
  bridge.steps_per_second(turn);
  for (int t = 0; t < kTurns; ++t) {
    of_loop.push_back(loop.run(turn).steps_per_second);
    of_bridge.push_back(bridge.steps_per_second(turn));
    ratios.push_back(of_bridge.back() / of_loop.back());
  }
  return {{"ratio", median(ratios)},
          {"bridge_steps_per_second", median(of_bridge)},
          {"loop_steps_per_second", median(of_loop)}};
}

}  // namespace

BenchReport bench_bridge(double seconds) {
  nlohmann::ordered_json json{{"environment", kEnvironment}};
  std::vector<std::string> lines;
  lines.emplace_back("CartPole-v1 of Gymnasium in one process, and in a loop in Python");
  for (const int64_t rows : {32, 8}) {
    const nlohmann::ordered_json result = compare(rows, seconds / 2);
    const std::string count = std::to_string(rows);
    json["rows" + count] = result;
    lines.push_back(count + " rows  " + format_number(result["bridge_steps_per_second"], 0) + " steps/s, the loop " +
                    format_number(result["loop_steps_per_second"], 0) + ": " + format_number(result["ratio"], 3) +
                    " of its speed");
  }
  return {json.dump(), lines};
}

}  // namespace troupe
