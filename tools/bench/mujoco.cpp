// `troupe bench mujoco`: environments mujoco:ID, compared with a loop around the same library, and with Gymnasium.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "envs/make/make_env.h"
#include "envs/mujoco/library.h"
#include "envs/mujoco/tasks.h"
#include "runtime/base/rng.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/gymnasium_loop.h"
#include "tools/bench/support.h"

namespace troupe {
namespace {

constexpr int64_t kMujocoRows = 32;
constexpr size_t kTasks = 512;   // steps after which the actions repeat
constexpr int64_t kWarmUp = 16;  // steps of every row before the measurement
constexpr int64_t kEpisode = 1000;

// Episodes of 1000 steps that all start in the same state: the first two simulate exactly the same motions.
struct MujocoCase {
  const char* name;
  const char* params;
};
constexpr const char* kEndless = R"({"terminate_when_unhealthy": false, "reset_noise_scale": 0.0})";
constexpr MujocoCase kCases[] = {{"HalfCheetah-v5", R"({"reset_noise_scale": 0.0})"},
                                 {"Hopper-v5", kEndless},
                                 {"Walker2d-v5", kEndless},
                                 {"Ant-v5", kEndless},
                                 {"Humanoid-v5", kEndless}};

std::vector<Array> random_actions(const ActionSpec& spec) {
  std::vector<Array> table;
  Rng rng(1);
  for (size_t t = 0; t < kTasks; ++t) {
    Array& actions = table.emplace_back(DType::f32, spec.shape().prepended(kMujocoRows));
    size_t a = 0;
    for (float& number : actions.mutable_view<float>()) {
      const size_t dimension = a++ % spec.low.size();
      number = rng.uniform(spec.low[dimension], spec.high[dimension]);
    }
  }
  return table;
}

class Native {
 public:
  explicit Native(const MujocoCase& which) {
    EnvConfig config;
    config.id = std::string("mujoco:") + which.name;
    config.params = which.params;
    config.rows = kMujocoRows;
    env_ = make_env(config);
    step_ = EnvStep::allocate(env_->spec(), kMujocoRows);
    env_->reset(1, 0, step_);
    actions_ = random_actions(env_->spec().action);
  }

  const std::vector<Array>& actions() const { return actions_; }
  void step() {
    env_->step(actions_[at_++ % kTasks], step_);
    if (!step_.errors.empty()) throw std::runtime_error(step_.errors.front());
  }

 private:
  std::unique_ptr<Env> env_;
  EnvStep step_;
  std::vector<Array> actions_;
  size_t at_ = 0;
};

// Calls MuJoCo and does nothing else: no observations, rewards or ends of episodes.
class BareLoop {
 public:
  BareLoop(const MujocoTaskEntry& entry, const std::vector<Array>& actions)
      : model_(std::string("mujoco:") + entry.name, entry.model), frame_skip_(entry.frame_skip), actions_(actions) {
    for (int64_t i = 0; i < kMujocoRows; ++i) {
      rows_.emplace_back(model_.functions().make_data(model_.get()), model_.functions().delete_data);
      controls_.push_back(model_.functions().fields(rows_.back().get()).ctrl);
    }
  }

  void step() {
    const MujocoFunctions& mujoco = model_.functions();
    const float* action = actions_[at_++ % kTasks].view<float>().data();
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (int a = 0; a < model_.sizes().nu; ++a) controls_[i][a] = static_cast<double>(*action++);
      mujoco.step(model_.get(), rows_[i].get(), frame_skip_, nullptr);
      if (at_ % kEpisode != 0) continue;
      mujoco.reset(model_.get(), rows_[i].get());
      mujoco.forward(model_.get(), rows_[i].get());
    }
  }

 private:
  SimulationModel model_;
  int frame_skip_;
  const std::vector<Array>& actions_;
  std::vector<std::unique_ptr<MujocoData, void (*)(MujocoData*)>> rows_;
  std::vector<double*> controls_;
  size_t at_ = 0;
};

// Of this thread's own time on the processor, so that other programs affect the figures less.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of `count` steps of every row.
template <class Stepped>
double steps_per_cpu_second(Stepped& stepped, int64_t count) {
  const double start = cpu_seconds();
  for (int64_t k = 0; k < count; ++k) stepped.step();
  return static_cast<double>(count * kMujocoRows) / (cpu_seconds() - start);
}

// Null if python3 cannot make the environment.
std::unique_ptr<GymnasiumLoop> gymnasium_loop(const MujocoCase& which) {
  try {
    auto loop = std::make_unique<GymnasiumLoop>(which.name, which.params, kMujocoRows);
    loop->run(0.01);
    return loop;
  } catch (const std::runtime_error&) {
    return nullptr;
  }
}

const MujocoTaskEntry& entry_of(const MujocoCase& which) {
  return *std::ranges::find_if(
      mujoco_tasks(), [&](const MujocoTaskEntry& entry) { return std::string_view(entry.name) == which.name; });
}

nlohmann::ordered_json compare(const MujocoCase& which, double seconds) {
  constexpr int kTurns = 9;
  const double turn = std::max(0.01, seconds / (3 * kTurns));
  Native native(which);
  BareLoop bare(entry_of(which), native.actions());
  const std::unique_ptr<GymnasiumLoop> gymnasium = gymnasium_loop(which);
  std::vector<double> of_native, of_bare, of_gymnasium, to_bare, to_gymnasium;
  const double first = steps_per_cpu_second(native, kWarmUp);
  steps_per_cpu_second(bare, kWarmUp);
  const int64_t steps = std::max<int64_t>(1, std::llround(first * turn / kMujocoRows));
  for (int t = 0; t < kTurns; ++t) {
    of_native.push_back(steps_per_cpu_second(native, steps));
    of_bare.push_back(steps_per_cpu_second(bare, steps));
    to_bare.push_back(of_native.back() / of_bare.back());
    if (gymnasium == nullptr) continue;
    of_gymnasium.push_back(gymnasium->run(turn).steps_per_cpu_second);
    to_gymnasium.push_back(of_native.back() / of_gymnasium.back());
  }
  nlohmann::ordered_json json{{"steps_per_cpu_second", median(of_native)},
                              {"loop_steps_per_cpu_second", median(of_bare)},
                              {"ratio_to_loop", median(to_bare)},
                              {"gymnasium_steps_per_cpu_second", nullptr},
                              {"ratio_to_gymnasium", nullptr}};
  if (gymnasium != nullptr) {
    json["gymnasium_steps_per_cpu_second"] = median(of_gymnasium);
    json["ratio_to_gymnasium"] = median(to_gymnasium);
  }
  return json;
}

}  // namespace

BenchReport bench_mujoco(double seconds) {
  nlohmann::ordered_json json{{"rows", kMujocoRows}};
  std::vector<std::string> lines{std::to_string(kMujocoRows) + " rows in one thread, random actions"};
  bool has_gymnasium = true;
  for (const MujocoCase& which : kCases) {
    const nlohmann::ordered_json result = compare(which, seconds / std::size(kCases));
    json[which.name] = result;
    std::string line = std::string(which.name) + "  " + format_number(result["steps_per_cpu_second"], 0) +
                       " steps per CPU-second, " + format_number(result["ratio_to_loop"], 3) +
                       " of a loop that only calls MuJoCo";
    has_gymnasium = has_gymnasium && !result["ratio_to_gymnasium"].is_null();
    if (!result["ratio_to_gymnasium"].is_null())
      line += ", " + format_number(result["ratio_to_gymnasium"], 2) + " of Gymnasium";
    lines.push_back(line);
  }
  if (!has_gymnasium) lines.emplace_back("not compared with Gymnasium: python3 cannot make its environments of MuJoCo");
  return {json.dump(), lines};
}

}  // namespace troupe
