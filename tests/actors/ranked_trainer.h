#pragma once
// A trainer whose updates are computed with another rank, which the test plays.

#include <memory>
#include <utility>
#include <vector>

#include "actors/trainer.h"
#include "actors/weights_check.h"
#include "models/shards/parameter_slices.h"
#include "tests/actors/one_trainer.h"
#include "tests/support/test.h"

namespace troupe::test {

// A learner whose updates have one round, in which each shard says its number.
class RoundLearner final : public Learner {
 public:
  explicit RoundLearner(sim::World& world, size_t shards) : fake_(world, 0), shards_(shards), mine_{0, shards} {}
  std::shared_ptr<const Signature> saved_signature() const override { return fake_.saved_signature(); }
  std::shared_ptr<const Signature> published_signature() const override { return fake_.published_signature(); }
  WeightsPtr snapshot(PolicyVersion version) const override { return fake_.snapshot(version); }
  std::shared_ptr<const Stager> stager() const override { return fake_.stager(); }
  double imitate(StagedBatch&, double) override { return 0; }
  LearnerState save() const override {
    TROUPE_CHECK(!updating_ && slices == 1, mine_.first, slices);
    ++saved;
    return fake_.save();
  }
  void hold_slice(size_t rank, size_t ranks) override {
    TROUPE_CHECK(!updating_ && rank == 0, mine_.first, rank);
    slices = ranks;
  }
  size_t trained_elements() const override { return kElements; }
  // All of them are the number of updates.
  AdamMoments moments() const override {
    TROUPE_CHECK(!updating_, mine_.first);
    return moments_after(updates_, ParameterSlices(kElements, slices).slice(0));
  }
  static AdamMoments moments_after(uint64_t updates, ElementRange elements) {
    const std::vector<float> values(elements.size(), static_cast<float>(updates));
    const Array array = Array::of<float>({static_cast<int64_t>(values.size())}, values);
    return {elements, array, array};
  }
  LearnerState save(std::span<const AdamMoments> all) const override {
    TROUPE_CHECK(!updating_, mine_.first);
    saved_slices.emplace_back();
    for (const AdamMoments& slice : all) saved_slices.back().push_back(slice.elements);
    saved_moments.push_back(moments_of(all, {0, kElements}));
    return fake_.save();
  }
  LearnerState save_without_moments() const override {
    TROUPE_CHECK(!updating_, mine_.first);
    ++saved;
    return fake_.save_without_moments();
  }
  void load(const LearnerState&, const AdamMoments& slice) override {
    TROUPE_CHECK(!updating_, mine_.first);
    CHECK(slice.elements == ParameterSlices(kElements, slices).slice(0));
    ++loaded;
    updates_ = static_cast<uint64_t>(slice.first.view<float>()[0]);
  }
  void begin_from(const std::map<std::string, Array>&) override {}
  void load(const LearnerState&) override {
    TROUPE_CHECK(!updating_, mine_.first);
    ++loaded;
  }

  void hold_shards(ShardRange shards) override { mine_ = shards; }
  void begin(std::span<StagedBatch* const> shards, double) override {
    TROUPE_CHECK(shards.size() == mine_.count && !updating_, shards.size(), mine_.count);
    for (StagedBatch* shard : shards) TROUPE_CHECK(std::exchange(shard->index, kUsed) != kUsed, mine_.first);
    updating_ = true;
    said_ = false;
    heard_ = mine_.count == shards_;
  }
  Advance advance() override {
    if (heard_) return Advance::done;
    if (!std::exchange(said_, true)) {
      RankPart part{mine_, {}, {}};
      for (size_t i = 0; i < mine_.count; ++i) part.numbers.push_back({static_cast<double>(mine_.first + i)});
      say_({}, std::move(part));
    }
    return Advance::waits;
  }
  void say_to(SayPiece say) override { say_ = std::move(say); }
  void deliver(const RoundPiece&, RoundResult all) override {
    heard_ = true;
    delivered.push_back(std::move(all.numbers));
  }
  UpdateReport finish() override {
    TROUPE_CHECK(updating_ && heard_, mine_.first);
    updating_ = false;
    ++updates_;
    return {.steps = 1};
  }
  void abandon() override { updating_ = false; }

  static constexpr size_t kElements = 48;
  static constexpr uint64_t kUsed = 1000;  // a learner may change a batch, so it is given it once

  mutable int saved = 0;
  size_t slices = 1;
  mutable std::vector<std::vector<ElementRange>> saved_slices;
  mutable std::vector<AdamMoments> saved_moments;
  int loaded = 0;
  std::vector<std::vector<ShardNumbers>> delivered;

 private:
  sim::FakeLearner fake_;
  size_t shards_;
  ShardRange mine_;
  SayPiece say_;
  bool updating_ = false, said_ = false, heard_ = false;
  uint64_t updates_ = 0;  // that its moments have had
};

// What a rank was told.
struct Told {
  int states = 0;
  RankState state;  // the last one
  std::vector<RankSamples> samples;
  std::vector<RankUpdate> updates;
  std::vector<RankSave> saves;
  int pings = 0;
  bool silent = false;  // answers no ping
  bool deaf = false;    // has not got the last RankUpdate
  std::vector<Stop> stops;
  std::vector<RoundSaid> rounds;
};

inline caf::behavior rank_peer(caf::stateful_actor<PeerState>* self, Told* told) {
  return {
      [told](const RankState& state) {
        ++told->states;
        told->state = state;
      },
      [told](const RankSave& save) { told->saves.push_back(save); },
      [](const RankCopy&) {},
      [self, told](const RankPing& ping) {
        ++told->pings;
        if (!told->silent)
          self->send(caf::actor_cast<caf::actor>(self->current_sender()),
                     RankPong{ping.number, told->deaf ? 0 : ping.number});
      },
      [told](const RankSamples& samples) { told->samples.push_back(samples); },
      [told](const RankUpdate& update) { told->updates.push_back(update); },
      [told](const RoundSaid& said) { told->rounds.push_back(said); },
      [told](const Stop& stop) { told->stops.push_back(stop); },
  };
}

struct RankedTrainer : OneActor {
  explicit RankedTrainer(RunConfig config) : OneActor(config = ranked(config)) {
    context->rank_processes = true;
    learner = std::make_shared<RoundLearner>(world, 3);
    all = add_peer();
    trainer =
        keep(system->spawn(troupe::trainer, RunContextPtr(context), std::shared_ptr<Learner>(learner), ReplayStart{},
                           TrainerPeers{all.as<PrefetcherActor>(), all.as<ReplayActor>(), all.as<PublisherActor>(),
                                        all.as<RecorderActor>(), all.as<EvaluatorActor>(), all.as<StatsActor>(),
                                        all.as<decltype(TrainerPeers::supervisor)>()}));
    rank = system->spawn(rank_peer, told.get());
    keep(caf::actor_cast<RankActor>(rank));
    all.tell(trainer, begin_atom_v);
    run();
  }
  static RunConfig ranked(RunConfig config) {
    config.trainer.shards = 3;
    config.trainer.ranks = 2;
    return config;
  }
  void join() {
    all.tell(trainer, RankJoined{caf::actor_cast<RankActor>(rank), "rank process 7"});
    run();
  }
  void join_another() {
    rank = system->spawn(rank_peer, told.get());
    keep(caf::actor_cast<RankActor>(rank));
    join();
  }
  void stage() {
    StagedMessage staged;
    for (int shard = 0; shard < 3; ++shard)
      staged.drawn.push_back(std::make_shared<const SuperBatch>(SuperBatch{.index = updates}));
    staged.shards.push_back(learner->stager()->stage(*staged.drawn.front()));
    ++updates;
    all.tell(trainer, std::move(staged));
    run();
  }
  void say(RankSaid said) { send(told->updates.back().exchange, std::move(said)); }
  void say(const RankDone& done) { send(trainer, done); }
  // Its slice, after that many updates.
  void say_moments(uint64_t after) {
    send(trainer,
         RankMoments{told->saves.back().number, {RoundLearner::moments_after(after, told->state.moments.elements)}});
  }
  void copy_moments(uint64_t after) {
    in_pieces(RoundLearner::moments_after(after, told->state.moments.elements), 10, [this](AdamMoments piece) {
      send(told->updates.back().exchange, RankCopy{attempt(), std::move(piece)});
    });
  }
  template <class Service, class Message>
  void send(const Service& service, Message message) {
    caf::send_as(rank, caf::actor_cast<caf::actor>(caf::actor_cast<caf::strong_actor_ptr>(service)),
                 std::move(message));
    run();
  }
  Attempt attempt() const { return told->updates.back().attempt; }
  // What a rank does with an update.
  void answer() {
    say(RankSaid{attempt(), {}, {{1, 2}, {{1}, {2}}, {}}});
    say(done());
  }
  RankDone done() const { return {attempt(), weights_check(*learner->snapshot({0, attempt().update + 1})), 0}; }
  void lose_rank() {
    caf::anon_send_exit(rank, caf::exit_reason::kill);
    run();
  }

  std::shared_ptr<RoundLearner> learner;
  std::shared_ptr<Told> told = std::make_shared<Told>();
  Peer all;
  caf::actor rank;
  TrainerActor trainer;
  uint64_t updates = 0;
};

}  // namespace troupe::test
