// A trainer that keeps the moments of its slice of the parameters alone, with another rank, which the test plays.

#include <string>
#include <vector>

#include "tests/actors/ranked_trainer.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

RunConfig divided(int64_t updates = 100, int64_t checkpoint_every = 0) {
  RunConfig config = limited(0, updates);
  config.trainer.zero = 1;
  config.checkpoint.every_updates = checkpoint_every;
  return config;
}

bool equal(const AdamMoments& a, const AdamMoments& b) {
  return a.elements == b.elements && a.first == b.first && a.second == b.second;
}

const std::vector<ElementRange> kBoth = {{0, 16}, {16, 48}};

}  // namespace

TEST_CASE("trainer, slices: the ranks of the first update get the state, and which slice they have") {
  RankedTrainer f(divided());
  f.join();
  f.stage();
  CHECK(f.learner->slices == 2);
  CHECK(f.learner->loaded == 1);
  CHECK(f.told->states == 1);
  CHECK(f.told->state.rank == 1);
  CHECK(f.told->state.ranks == 2);
  f.answer();
  f.stage();
  CHECK(f.told->states == 1);
  CHECK(f.told->saves.empty());
  CHECK(f.told->state.moments.elements == kBoth[1]);
  CHECK(f.told->state.next.empty());
  CHECK(f.learner->saved == 1);  // no copy for each update
}

TEST_CASE("trainer, slices: a checkpoint has the moments of all ranks, and no update begins before they have come") {
  RankedTrainer f(divided(100, 1));
  f.join();
  f.stage();
  f.answer();
  CHECK(f.all.heard->updates.size() == 1);
  CHECK(f.all.heard->checkpoints.empty());
  REQUIRE(f.told->saves.size() == 1);
  f.stage();
  CHECK(f.told->updates.size() == 1);
  f.say_moments(1);
  REQUIRE(f.all.heard->checkpoints.size() == 1);
  CHECK(f.all.heard->checkpoints[0].version.number == 1);
  CHECK(f.learner->saved_slices == std::vector<std::vector<ElementRange>>{kBoth});
  CHECK(f.told->updates.size() == 2);
  f.say_moments(1);  // of a request that is answered
  f.answer();
  CHECK(f.all.heard->updates.size() == 2);
}

TEST_CASE("trainer, slices: a run that is stopped ends when it has the moments of all ranks") {
  RankedTrainer f(divided(100, 1));
  f.join();
  f.stage();
  f.answer();
  f.all.tell(f.trainer, Stop{"enough"});  // while a checkpoint waits for them
  f.run();
  CHECK(f.all.heard->ended.empty());
  f.say_moments(1);
  REQUIRE(f.all.heard->ended.size() == 1);
  REQUIRE(f.all.heard->checkpoints.size() == 2);
  CHECK(f.all.heard->checkpoints[1].last);
  CHECK(f.told->saves.size() == 1);
  CHECK(f.learner->saved_slices.size() == 2);
}

TEST_CASE("trainer, slices: a run that is stopped while an update waits for the moments of all ranks ends without it") {
  RankedTrainer f(divided(100, 1));
  f.join();
  f.stage();
  f.answer();
  f.stage();
  f.all.tell(f.trainer, Stop{"enough"});
  f.run();
  CHECK(f.all.heard->ended.empty());
  f.say_moments(1);
  REQUIRE(f.all.heard->ended.size() == 1);
  CHECK(f.all.heard->ended[0].version.number == 1);
  CHECK(f.told->updates.size() == 1);
  CHECK(f.all.heard->checkpoints.size() == 2);
}

TEST_CASE("trainer, slices: a run that loses a rank ends without a checkpoint, whatever it does") {
  for (const std::string when : {"in an update", "between two", "while moments are asked for"}) {
    CAPTURE(when);
    RankedTrainer f(divided(100, when == "while moments are asked for" ? 1 : 0));
    f.join();
    f.stage();
    if (when != "in an update") f.answer();
    const size_t updates = f.all.heard->updates.size();
    f.lose_rank();
    f.stage();  // to nobody
    CHECK(f.all.heard->updates.size() == updates);
    CHECK(f.all.heard->checkpoints.empty());
    CHECK(f.all.heard->ended.empty());
  }
}

TEST_CASE("trainer, slices: a rank that is lost before it had one loses nothing") {
  RankedTrainer f(divided());
  f.join();
  f.lose_rank();
  f.stage();
  CHECK(f.all.heard->updates.size() == 1);
  CHECK(f.learner->slices == 1);
}

TEST_CASE("trainer, slices: when a rank joins, all get the state of all slices and a new one") {
  RankedTrainer f(divided());
  f.join();
  f.stage();
  f.answer();
  const auto told = std::make_shared<Told>();
  const caf::actor third = f.system->spawn(rank_peer, told.get());
  f.keep(caf::actor_cast<RankActor>(third));
  f.all.tell(f.trainer, RankJoined{caf::actor_cast<RankActor>(third), "process 8"});
  f.run();
  f.stage();
  REQUIRE(f.told->saves.size() == 1);
  CHECK(told->states == 0);
  f.say_moments(1);
  CHECK(f.learner->slices == 3);
  CHECK(equal(told->state.moments, RoundLearner::moments_after(1, {32, 48})));
  CHECK(f.told->states == 2);
  CHECK(f.told->state.ranks == 3);
  CHECK(told->states == 1);
  CHECK(told->state.rank == 2);
  CHECK(f.told->updates.size() == 2);
  CHECK(told->updates.size() == 1);
}
