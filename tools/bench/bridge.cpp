// `troupe bench bridge`: environments in Python, compared with a loop in Python around the same environments.

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "envs/make_env.h"
#include "runtime/base/child_process.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/support.h"

namespace troupe {
namespace {

constexpr const char* kEnvironment = "CartPole-v1";
constexpr int64_t kTable = 512;  // steps after which the actions repeat

// The loop that it is compared with: what a program in Python does at least. For each double that it reads, it runs for
// that many seconds, and answers with its steps per second.
constexpr const char* kLoop = R"(
import socket, struct, sys, time
import gymnasium
connection, rows = socket.socket(fileno=3), int(sys.argv[1])
envs = [gymnasium.make(sys.argv[2]) for _ in range(rows)]
for i, env in enumerate(envs):
    env.reset(seed=i)
table = [[(t * 2654435761 + i * 40503 >> 7) & 1 for i in range(rows)] for t in range(512)]
while request := connection.recv(8):
    seconds, steps, start = struct.unpack("<d", request)[0], 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for actions in table[:64]:
            for env, action in zip(envs, actions):
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
        steps += 64 * rows
        table = table[64:] + table[:64]
    connection.sendall(struct.pack("<d", steps / (time.perf_counter() - start)))
)";

class Loop {
 public:
  explicit Loop(int64_t rows) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair failed");
    socket_ = Descriptor(ends[0]);
    const Descriptor other(ends[1]);
    process_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{EnvConfig().python, "-c", kLoop, std::to_string(rows), kEnvironment},
        std::span(&ends[1], 1));
  }

  double steps_per_second(double seconds) {
    double rate = 0;
    if (send(socket_.number(), &seconds, sizeof seconds, MSG_NOSIGNAL) != sizeof seconds ||
        recv(socket_.number(), &rate, sizeof rate, MSG_WAITALL) != sizeof rate) {
      process_->kill();
      throw std::runtime_error("the loop in Python " + process_->state() + ": " + process_->last_line());
    }
    return rate;
  }

 private:
  Descriptor socket_;
  std::unique_ptr<ChildProcess> process_;
};

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
  Loop loop(rows);
  Bridge bridge(rows);
  std::vector<double> of_loop, of_bridge, ratios;
  loop.steps_per_second(turn);
  bridge.steps_per_second(turn);
  for (int t = 0; t < kTurns; ++t) {
    of_loop.push_back(loop.steps_per_second(turn));
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
