#include "tools/bench/slow_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>

#include "envs/forwarding_env.h"
#include "runtime/base/file.h"
#include "runtime/base/rng.h"
#include "tools/cli/learning_context.h"

namespace troupe {

namespace {

using std::chrono::microseconds;

void pass_time(microseconds time, bool busy) {
  if (time.count() <= 0) return;
  if (!busy) return std::this_thread::sleep_for(time);
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

class SlowEnv final : public ForwardingEnv {
 public:
  SlowEnv(std::unique_ptr<Env> inner, const SlowCosts& costs, uint64_t number)
      : ForwardingEnv(std::move(inner)),
        costs_(costs),
        spec_(ForwardingEnv::spec()),
        random_(derive_key(number, "stalls")),
        step_(number == 0 && costs.first_step.count() > 0 ? costs.first_step : costs.step) {
    spec_.blocks = true;
  }
  const EnvSpec& spec() const override { return spec_; }
  void step(const Array& actions, EnvStep& out) override {
    const bool stalls = random_.uniform_double() < costs_.stall_probability;
    pass_time(step_ + (stalls ? costs_.stall : microseconds(0)), costs_.busy);
    ForwardingEnv::step(actions, out);
  }

 private:
  SlowCosts costs_;
  EnvSpec spec_;
  Rng random_;
  microseconds step_;
};

class SlowPolicy final : public Policy {
 public:
  SlowPolicy(std::unique_ptr<Policy> inner, microseconds forward) : inner_(std::move(inner)), forward_(forward) {}
  std::shared_ptr<const Signature> signature() const override { return inner_->signature(); }
  void load(const WeightSnapshot& weights) override { inner_->load(weights); }
  ActOutput act(const ActInput& input) override {
    pass_time(forward_, /*busy=*/false);
    return inner_->act(input);
  }
  using Policy::values;
  Array values(const Arrays& observations, const Array& state) override { return inner_->values(observations, state); }

 private:
  std::unique_ptr<Policy> inner_;
  microseconds forward_;
};

class EmptyStager final : public Stager {
 public:
  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override {
    auto staged = std::make_unique<StagedBatch>();
    staged->index = batch.index;
    staged->samples = batch.samples;
    return staged;
  }
};

class SlowLearner final : public Learner {
 public:
  SlowLearner(std::unique_ptr<Learner> inner, const SlowCosts& costs)
      : inner_(std::move(inner)), update_(costs.update), learns_(costs.learns) {}
  std::shared_ptr<const Signature> saved_signature() const override { return inner_->saved_signature(); }
  std::shared_ptr<const Signature> published_signature() const override { return inner_->published_signature(); }
  WeightsPtr snapshot(PolicyVersion version) const override { return inner_->snapshot(version); }
  WeightsPtr reference(PolicyVersion version) const override { return inner_->reference(version); }
  std::shared_ptr<const Stager> stager() const override {
    return learns_ ? inner_->stager() : std::make_shared<const EmptyStager>();
  }
  void begin(std::span<StagedBatch* const> shards, double progress) override {
    pass_time(update_, /*busy=*/false);
    if (learns_) inner_->begin(shards, progress);
  }
  Advance advance() override { return learns_ ? inner_->advance() : Advance::done; }
  UpdateReport finish() override { return learns_ ? inner_->finish() : UpdateReport{.steps = 1, .epochs = 1}; }
  double imitate(StagedBatch& demonstrations, double learning_rate) override {
    return inner_->imitate(demonstrations, learning_rate);
  }
  void end_warmup() override { inner_->end_warmup(); }
  LearnerState save() const override { return inner_->save(); }
  void begin_from(const std::map<std::string, Array>& model) override { inner_->begin_from(model); }
  void load(const LearnerState& state) override { inner_->load(state); }

 private:
  std::unique_ptr<Learner> inner_;
  microseconds update_;
  bool learns_;
};

// In a process of its own, after fork: system calls only.
[[noreturn]] void compute_while(int life) {
  pollfd closed{life, POLLIN, 0};
  while (poll(&closed, 1, 0) == 0) pass_time(std::chrono::milliseconds(10), /*busy=*/true);
  _exit(0);
}

}  // namespace

std::shared_ptr<RunContext> slow_context(const RunConfig& config, const SlowCosts& costs) {
  std::shared_ptr<RunContext> context = learning_context(config);
  context->spec.blocks = true;
  context->make_env = [make = context->make_env, costs, made = std::make_shared<std::atomic<uint64_t>>(0)](
                          const EnvConfig& env) { return std::make_unique<SlowEnv>(make(env), costs, (*made)++); };
  context->make_policy = [make = context->make_policy, costs] {
    return std::make_unique<SlowPolicy>(make(), costs.forward);
  };
  return context;
}

std::unique_ptr<Learner> slow_learner(const RunContext& context, const SlowCosts& costs) {
  return std::make_unique<SlowLearner>(learner_of(context), costs);
}

OtherPrograms::OtherPrograms(int count) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw IoError("bench", "no pipe for other programs", errno);
  life_ = ends[1];
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      close(ends[1]);
      if (fork() == 0) compute_while(ends[0]);  // its parent ends at once, so that it belongs to nobody
      _exit(0);
    }
    if (child > 0) waitpid(child, nullptr, 0);
  }
  close(ends[0]);
}

OtherPrograms::~OtherPrograms() { close(life_); }

}  // namespace troupe
