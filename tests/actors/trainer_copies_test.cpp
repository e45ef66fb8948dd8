// A trainer whose ranks keep copies of each other's moments (trainer.redundancy), with other ranks, which the test
// plays.

#include <memory>
#include <string>
#include <vector>

#include "tests/actors/ranked_trainer.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

RunConfig copied(int64_t checkpoint_every = 0, int64_t ranks = 2) {
  RunConfig config = limited(0, 100);
  config.trainer.zero = 1;
  config.trainer.redundancy = "neighbour";
  config.trainer.ranks = ranks;
  config.checkpoint.every_updates = checkpoint_every;
  return config;
}

// Of all parameters.
void check_moments(const AdamMoments& moments, uint64_t after) {
  const AdamMoments wanted = RoundLearner::moments_after(after, {0, RoundLearner::kElements});
  CHECK(moments.elements == wanted.elements);
  CHECK(moments.first == wanted.first);
  CHECK(moments.second == wanted.second);
}

// With a third rank.
struct ThreeRanks : RankedTrainer {
  explicit ThreeRanks(int64_t checkpoint_every = 0) : RankedTrainer(copied(checkpoint_every, 3)) {
    third = system->spawn(rank_peer, third_told.get());
    keep(caf::actor_cast<RankActor>(third));
    join();
    all.tell(trainer, RankJoined{caf::actor_cast<RankActor>(third), "process 8"});
    run();
  }
  template <class Service, class Message>
  void from_third(const Service& service, Message message) {
    caf::send_as(third, caf::actor_cast<caf::actor>(caf::actor_cast<caf::strong_actor_ptr>(service)),
                 std::move(message));
    run();
  }
  void complete_update(uint64_t after) {
    say(RankSaid{attempt(), {}, {{1, 1}, {{1}}, {}}});
    from_third(told->updates.back().exchange, RankSaid{attempt(), {}, {{2, 1}, {{2}}, {}}});
    from_third(told->updates.back().exchange,
               RankCopy{attempt(), RoundLearner::moments_after(after, third_told->state.moments.elements)});
    copy_moments(after);
    say(done());
    from_third(trainer, done());
  }
  // Of its own slice, and of the one whose copy it has.
  void third_says(uint64_t after) {
    from_third(trainer, RankMoments{third_told->saves.back().number,
                                    {RoundLearner::moments_after(after, third_told->state.moments.elements)}});
  }
  void kill(const caf::actor& actor) {
    caf::anon_send_exit(actor, caf::exit_reason::kill);
    run();
  }

  caf::actor third;
  std::shared_ptr<Told> third_told = std::make_shared<Told>();
};

}  // namespace

TEST_CASE("trainer, copies: an update is complete when the moments of the next rank are here") {
  for (const bool copy_first : {false, true}) {
    CAPTURE(copy_first);
    RankedTrainer f(copied());
    f.join();
    f.stage();
    if (copy_first) f.copy_moments(1);
    f.answer();
    CHECK(f.all.heard->updates.size() == (copy_first ? 1 : 0));
    if (!copy_first) f.copy_moments(1);
    CHECK(f.all.heard->updates.size() == 1);
  }
}

TEST_CASE("trainer, copies: an update that loses a rank begins again with the moments from before it") {
  for (const std::string when : {"at its begin", "after the round", "when its copy is here"}) {
    CAPTURE(when);
    RankedTrainer f(copied(1));
    f.join();
    f.stage();
    f.copy_moments(1);
    f.answer();
    f.say_moments(1);  // of the first checkpoint
    f.stage();
    if (when != "at its begin") f.say(RankSaid{f.attempt(), {}, {{1, 2}, {{1}, {2}}, {}}});
    if (when == "when its copy is here") f.copy_moments(2);
    CHECK(f.all.heard->updates.size() == 1);
    f.lose_rank();
    CHECK(f.learner->slices == 1);
    CHECK(f.all.heard->updates.size() == 2);  // by this rank alone
    REQUIRE(f.all.heard->checkpoints.size() == 1);
    check_moments(f.learner->saved_moments.front(), 1);
    CHECK(f.learner->moments().first.view<float>()[47] == 2);
    f.stage();
    CHECK(f.all.heard->updates.size() == 3);
  }
}

TEST_CASE("trainer, copies: a rank that is lost between two updates loses nothing, nor while a checkpoint waits") {
  for (const bool saving : {false, true}) {
    CAPTURE(saving);
    RankedTrainer f(copied(saving ? 1 : 0));
    f.join();
    f.stage();
    f.copy_moments(1);
    f.answer();
    CHECK(f.told->saves.size() == (saving ? 1 : 0));
    f.lose_rank();
    CHECK(f.all.heard->checkpoints.size() == (saving ? 1 : 0));
    if (saving) check_moments(f.learner->saved_moments.front(), 1);
    f.stage();
    CHECK(f.all.heard->updates.size() == 2);
    CHECK(f.learner->slices == 1);
    CHECK(f.learner->moments().first.view<float>()[47] == 2);
  }
}

TEST_CASE("trainer, copies: the other ranks say what they have, and get a new slice and a new copy") {
  ThreeRanks f;
  f.stage();
  REQUIRE(f.told->state.next.size() == 1);
  CHECK(f.told->state.next.front().elements == ElementRange{32, 48});
  CHECK(f.third_told->state.next.empty());
  f.complete_update(1);
  CHECK(f.all.heard->updates.size() == 1);
  f.stage();
  f.lose_rank();
  REQUIRE(f.third_told->saves.size() == 1);
  CHECK(f.third_told->saves[0].wanted == MomentsWanted::before);
  f.from_third(f.trainer, RankDone{f.third_told->updates.back().attempt, 0, 0});  // of the attempt that is given up
  f.third_says(1);
  CHECK(f.third_told->states == 2);
  CHECK(f.third_told->state.ranks == 2);
  CHECK(f.third_told->state.moments.elements == ElementRange{16, 48});
  CHECK(f.third_told->state.moments.first == RoundLearner::moments_after(1, {16, 48}).first);
  REQUIRE(f.third_told->updates.size() == 3);
  CHECK(f.third_told->updates.back().shards == ShardRange{1, 2});
}

TEST_CASE("trainer, copies: a rank that is lost while the others say theirs") {
  ThreeRanks f;
  f.stage();
  f.complete_update(1);
  f.stage();
  f.kill(f.third);
  REQUIRE(f.told->saves.size() == 1);
  SUBCASE("has said it") {
    f.send(f.trainer,
           RankMoments{f.told->saves.back().number,
                       {RoundLearner::moments_after(1, {16, 32}), RoundLearner::moments_after(1, {32, 48})}});
    CHECK(f.told->states == 2);
    f.kill(f.rank);
    CHECK(f.all.heard->updates.size() == 2);  // by this rank alone, which has a copy of all that one had
    CHECK(f.learner->moments().first.view<float>()[47] == 2);
  }
  SUBCASE("has not: its copy is lost, and the run ends") {
    f.kill(f.rank);
    f.stage();
    CHECK(f.all.heard->updates.size() == 1);
    CHECK(f.all.heard->ended.empty());
  }
}

TEST_CASE("trainer, copies: between two updates, a loss during the gathering that a loss has begun") {
  ThreeRanks f;
  f.stage();
  f.complete_update(1);
  f.kill(f.rank);
  REQUIRE(f.third_told->saves.size() == 1);
  CHECK(f.third_told->saves[0].wanted == MomentsWanted::after);
  f.stage();
  CHECK(f.third_told->updates.size() == 1);  // none begins before that
  f.third_says(1);
  CHECK(f.third_told->states == 2);
  CHECK(f.third_told->updates.size() == 2);
}

TEST_CASE("trainer, copies: a rank whose copy does not fit is lost") {
  RankedTrainer f(copied());
  f.join();
  f.stage();
  f.send(f.told->updates.back().exchange, RankCopy{f.attempt(), RoundLearner::moments_after(1, {0, 16})});
  CHECK(f.learner->slices == 1);
  CHECK(f.all.heard->updates.size() == 1);
}

TEST_CASE(
    "trainer, copies: an update whose gradients cannot be exchanged begins again, with the ranks that are there") {
  RankedTrainer f(copied());
  f.context->make_gradient_backend = [backend = make_in_process_backend()](const std::string&) { return backend; };
  f.join();
  f.stage();
  f.send(f.trainer, GradientsFailed{1, "rank 1: broken"});
  f.pass(7s);
  REQUIRE(f.told->saves.size() == 1);
  CHECK(f.told->saves[0].wanted == MomentsWanted::before);
  CHECK(f.told->updates.size() == 1);
  f.say_moments(0);
  REQUIRE(f.told->updates.size() == 2);
  CHECK(f.told->states == 2);
  CHECK(f.told->updates[1].gradients.front().generation == 2);
  f.copy_moments(1);
  f.answer();
  CHECK(f.all.heard->updates.size() == 1);
}
