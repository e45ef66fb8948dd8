#pragma once
// Fixture for the trainer alone, with a learner that records what it is asked for.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/trainer.h"
#include "sim/fake_learner.h"
#include "tests/actors/one_actor.h"

namespace troupe::test {

// Records the progress that is passed to each update, and the steps of a warm-up.
class RecordingLearner final : public sim::WholeUpdateLearner {
 public:
  explicit RecordingLearner(sim::World& world) : fake_(world, 0) {}
  std::shared_ptr<const Signature> saved_signature() const override { return fake_.saved_signature(); }
  std::shared_ptr<const Signature> published_signature() const override { return fake_.published_signature(); }
  WeightsPtr snapshot(PolicyVersion version) const override { return fake_.snapshot(version); }
  std::shared_ptr<const Stager> stager() const override { return fake_.stager(); }
  UpdateReport update_with(const std::vector<StagedBatch*>&, double progress) override {
    seen.push_back(progress);
    return report;
  }
  double imitate(StagedBatch&, double rate) override {
    rates.push_back(rate);
    return 2;
  }
  void end_warmup() override { warmed_up = true; }
  LearnerState save() const override { return fake_.save(); }
  void begin_from(const std::map<std::string, Array>& model) override { fake_.begin_from(model); }
  void load(const LearnerState& state) override { fake_.load(state); }

  std::vector<double> seen;
  std::vector<double> rates;  // of warm-up steps
  bool warmed_up = false;
  UpdateReport report{.steps = 1};

 private:
  sim::FakeLearner fake_;
};

inline RunConfig limited(double seconds, int64_t updates = 0) {
  RunConfig config;
  config.stop.env_steps = 0;
  config.stop.updates = updates;
  config.stop.seconds = seconds;
  return config;
}

struct OneTrainer : OneActor {
  explicit OneTrainer(const RunConfig& config, const ReplayStart& start = {})
      : OneActor(config), learner(std::make_shared<RecordingLearner>(world)) {
    if (config.warmup.steps > 0) context->tokens = sim::fake_token_run(world);
    const auto all = add_peer();
    trainer =
        keep(system->spawn(troupe::trainer, RunContextPtr(context), std::shared_ptr<Learner>(learner), start,
                           TrainerPeers{all.as<PrefetcherActor>(), all.as<ReplayActor>(), all.as<PublisherActor>(),
                                        all.as<RecorderActor>(), all.as<EvaluatorActor>(), all.as<StatsActor>(),
                                        all.as<decltype(TrainerPeers::supervisor)>()}));
    peer = all;
    peer.tell(trainer, begin_atom_v);
    run();
  }
  void update() {
    StagedMessage staged;
    staged.shards.push_back(learner->stager()->stage(SuperBatch{.index = learner->seen.size()}));
    peer.tell(trainer, std::move(staged));
    run();
  }

  std::shared_ptr<RecordingLearner> learner;
  TrainerActor trainer;
  Peer peer;
};

}  // namespace troupe::test
