// A trainer whose updates are computed with another rank, which the test plays.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/trainer.h"
#include "actors/weights_check.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/actors/one_trainer.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

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
    TROUPE_CHECK(!updating_, mine_.first);
    ++saved;
    return fake_.save();
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
    return {.steps = 1};
  }
  void abandon() override { updating_ = false; }

  static constexpr uint64_t kUsed = 1000;  // a learner may change a batch, so it is given it once

  mutable int saved = 0;
  int loaded = 0;
  std::vector<std::vector<ShardNumbers>> delivered;

 private:
  sim::FakeLearner fake_;
  size_t shards_;
  ShardRange mine_;
  SayPiece say_;
  bool updating_ = false, said_ = false, heard_ = false;
};

// What a rank was told.
struct Told {
  int states = 0;
  std::vector<RankUpdate> updates;
  std::vector<RoundSaid> rounds;
};

caf::behavior rank_peer(caf::stateful_actor<PeerState>*, Told* told) {
  return {
      [told](const RankState&) { ++told->states; },
      [told](const RankUpdate& update) { told->updates.push_back(update); },
      [told](const RoundSaid& said) { told->rounds.push_back(said); },
      [](const Stop&) {},
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
    all.tell(trainer, RankJoined{caf::actor_cast<RankActor>(rank), "process 7"});
    run();
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
  void say(RankDone done) { send(trainer, std::move(done)); }
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

}  // namespace

TEST_CASE("trainer, ranks: the first super-batch is asked for when all ranks are there") {
  RankedTrainer f(limited(0, 100));
  CHECK(f.all.heard->batches_asked == 0);
  f.join();
  CHECK(f.all.heard->batches_asked == 1);
}

TEST_CASE("trainer, ranks: a run whose ranks do not come ends with an error that counts them") {
  RankedTrainer f(limited(0, 100));
  f.pass(119s);
  CHECK(f.all.heard->ended.empty());
  f.pass(2s);
  REQUIRE(f.all.heard->ended.size() == 1);
  CHECK(f.all.heard->ended[0].error == "only 1 of trainer.ranks 2 have come within 120 s");
}

TEST_CASE("trainer, ranks: each computes its shards, and the update ends when all are done") {
  RankedTrainer f(limited(0, 100));
  f.join();
  f.stage();
  CHECK(f.told->states == 1);
  REQUIRE(f.told->updates.size() == 1);
  CHECK(f.told->updates[0].shards == ShardRange{1, 2});
  CHECK(f.told->updates[0].batches.size() == 2);
  CHECK(f.told->rounds.empty());
  CHECK(f.all.heard->updates.empty());
  f.say(RankSaid{f.attempt(), {}, {{1, 2}, {{1}, {2}}, {}}});
  REQUIRE(f.told->rounds.size() == 1);
  CHECK(f.told->rounds[0].all.numbers == std::vector<ShardNumbers>{{0}, {1}, {2}});
  CHECK(f.learner->delivered == std::vector<std::vector<ShardNumbers>>{{{0}, {1}, {2}}});
  CHECK(f.all.heard->updates.empty());
  f.say(f.done());
  CHECK(f.all.heard->updates.size() == 1);
  CHECK(f.all.heard->batches_asked == 2);
  f.stage();
  f.answer();
  CHECK(f.all.heard->updates.size() == 2);
  CHECK(f.told->states == 1);  // it has the same state as this rank
}

TEST_CASE("trainer, ranks: the time until the last rank is done is a stage of the update") {
  RankedTrainer f(limited(0, 100));
  f.join();
  f.stage();
  f.say(RankSaid{f.attempt(), {}, {{1, 2}, {{1}, {2}}, {}}});
  f.pass(3s);
  f.say(f.done());
  REQUIRE(f.all.heard->updates.size() == 1);
  CHECK(f.all.heard->updates[0].report->stages.exchange == 3);
  CHECK(f.all.heard->updates[0].update_seconds == 3);
}

TEST_CASE("trainer, ranks: a stop in the middle of an update ends training after it") {
  RankedTrainer f(limited(0, 100));
  f.join();
  f.stage();
  f.all.tell(f.trainer, Stop{"enough"});
  f.run();
  CHECK(f.all.heard->ended.empty());
  f.answer();
  REQUIRE(f.all.heard->ended.size() == 1);
  CHECK(f.all.heard->ended[0].reason == "enough");
  CHECK(f.all.heard->ended[0].version.number == 1);
  CHECK(f.all.heard->updates.size() == 1);
}

TEST_CASE("trainer, ranks: a limit of time in the middle of an update ends training after it") {
  RankedTrainer f(limited(8));
  f.join();
  f.stage();
  f.pass(9s);
  CHECK(f.all.heard->ended.empty());
  f.answer();
  REQUIRE(f.all.heard->ended.size() == 1);
  CHECK(f.all.heard->ended[0].reason == "stop.seconds reached");
}

TEST_CASE("trainer, ranks: an evaluation that reaches its goal in the middle of an update ends training after it") {
  RunConfig config = limited(0, 100);
  config.stop.eval_return = 5;
  RankedTrainer f(config);
  f.join();
  f.stage();
  Evaluation evaluation;
  evaluation.return_mean = 6;
  f.all.tell(f.trainer, evaluation);
  f.run();
  CHECK(f.all.heard->ended.empty());
  f.answer();
  REQUIRE(f.all.heard->ended.size() == 1);
  CHECK(f.all.heard->ended[0].reason == "stop.eval_return reached");
}

TEST_CASE("trainer, ranks: an update begins again from the state before it when a rank is lost") {
  for (const bool after_round : {false, true}) {
    CAPTURE(after_round);
    RankedTrainer f(limited(0, 100));
    f.join();
    f.stage();
    if (after_round) f.say(RankSaid{f.attempt(), {}, {{1, 2}, {{1}, {2}}, {}}});
    f.lose_rank();
    CHECK(f.learner->loaded == 1);
    CHECK(f.all.heard->updates.size() == 1);  // this rank has all shards now
    CHECK(f.all.heard->batches_asked == 2);
    f.stage();
    CHECK(f.all.heard->updates.size() == 2);
    CHECK(f.learner->loaded == 1);
  }
}

TEST_CASE("trainer, ranks: one that joins again gets the state, and shards of the next update") {
  RankedTrainer f(limited(0, 100));
  f.join();
  f.stage();
  f.lose_rank();
  f.rank = f.system->spawn(rank_peer, f.told.get());
  f.keep(caf::actor_cast<RankActor>(f.rank));
  f.join();
  f.stage();
  CHECK(f.told->states == 2);
  CHECK(f.attempt() == Attempt{1, 3});
  f.answer();
  CHECK(f.all.heard->updates.size() == 2);
}

TEST_CASE("trainer, ranks: what is of another attempt or no rank is ignored, and what does not fit loses the rank") {
  RankedTrainer f(limited(0, 100));
  f.join();
  f.stage();
  Attempt other = f.attempt();
  ++other.number;
  f.say(RankSaid{other, {}, {{1, 2}, {{1}, {2}}, {}}});
  f.all.tell(f.told->updates.back().exchange, RankSaid{f.attempt(), {}, {{1, 2}, {{1}, {2}}, {}}});
  f.run();
  CHECK(f.told->rounds.empty());
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  f.say(RankSaid{f.attempt(), {}, {{0, 3}, {{1}, {2}, {3}}, {}}});
  CHECK(f.learner->loaded == 1);
  CHECK(f.all.heard->updates.size() == 1);
  CHECK(disk.read("log").find("the rank in process 7 is gone") != std::string::npos);
  f.answer();  // of a rank that is lost
  CHECK(f.all.heard->updates.size() == 1);
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("trainer, ranks: a rank that ends after training is not missed") {
  RankedTrainer f(limited(0, 1));
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  f.join();
  f.stage();
  f.answer();
  REQUIRE(f.all.heard->ended.size() == 1);
  f.lose_rank();
  CHECK(disk.read("log").find("is gone") == std::string::npos);
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("trainer, ranks: a rank that ends an update with other weights ends the run") {
  RankedTrainer f(limited(0, 100));
  f.join();
  f.stage();
  f.say(RankSaid{f.attempt(), {}, {{1, 2}, {{1}, {2}}, {}}});
  RankDone done = f.done();
  ++done.weights;
  f.say(done);
  CHECK(f.all.heard->updates.empty());
  f.stage();  // to nobody
  CHECK(f.all.heard->updates.empty());
}
