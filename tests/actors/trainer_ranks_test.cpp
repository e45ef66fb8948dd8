// A trainer whose updates are computed with another rank, which the test plays.

#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/actors/ranked_trainer.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

TEST_CASE("trainer, ranks: the first super-batch is asked for when all ranks are there") {
  RankedTrainer f(limited(0, 100));
  CHECK(f.all.heard->batches_asked == 0);
  CHECK(f.all.heard->ranks.empty());
  f.join();
  CHECK(f.all.heard->batches_asked == 1);
  REQUIRE(f.all.heard->ranks.size() == 1);
  CHECK(f.all.heard->ranks[0].up == 2);
  CHECK(f.all.heard->ranks[0].complete);
  f.lose_rank();
  REQUIRE(f.all.heard->ranks.size() == 2);
  CHECK(f.all.heard->ranks[1].up == 1);
  CHECK(f.all.heard->ranks[1].complete);  // the run goes on
}

TEST_CASE("trainer, ranks: a rank that says twice that it is there is one rank") {
  RankedTrainer f(limited(0, 100));
  f.join();
  f.join();
  REQUIRE(f.all.heard->ranks.size() == 1);
  CHECK(f.all.heard->ranks[0].up == 2);
  f.stage();
  CHECK(f.told->updates.size() == 1);
  f.answer();
  CHECK(f.all.heard->updates.size() == 1);
}

TEST_CASE("trainer, ranks: a run whose ranks do not come says so, and ends with an error that counts them") {
  RankedTrainer f(limited(0, 100));
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  f.pass(5s);
  CHECK(disk.read("log").find("only 1 of trainer.ranks 2 have come within 5 s; training begins") != std::string::npos);
  open_log(nullptr, {.to_stderr = false});
  f.pass(114s);
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
  REQUIRE(f.told->samples.size() == 1);
  CHECK(f.told->samples[0].attempt == f.attempt());
  CHECK(f.told->samples[0].batches.size() == 2);
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
  f.join_another();
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
  CHECK(disk.read("log").find("rank process 7 is gone") != std::string::npos);
  f.answer();  // of a rank that is lost
  CHECK(f.all.heard->updates.size() == 1);
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("trainer, ranks: a rank that does not answer is lost, and told so; after the first update soon") {
  for (const bool first : {true, false}) {
    CAPTURE(first);
    RankedTrainer f(limited(0, 100));
    f.join();
    if (!first) {
      f.stage();
      f.answer();
    }
    f.stage();
    const size_t updates = f.all.heard->updates.size();
    const auto limit = first ? 1800s : 120s;
    const auto pass = [&f](std::chrono::seconds time) {
      for (; time > 0s; time -= 10s) f.pass(10s);
    };
    pass(limit - 20s);  // it answers all the time, but computes for long
    CHECK(f.told->pings >= 10);
    CHECK(f.told->stops.empty());
    f.told->silent = true;
    f.pass(limit);  // a pause of the whole process
    pass(limit - 20s);
    CHECK(f.told->stops.empty());
    pass(30s);
    REQUIRE(f.told->stops.size() == 1);
    CHECK(f.told->stops[0].reason.find("it has answered nothing for " + std::to_string(limit.count()) + " s") !=
          std::string::npos);
    CHECK(f.all.heard->updates.size() == updates + 1);  // without it
    f.join_another();  // the time that was lost with the first one does not count as that of an update
    f.stage();
    pass(110s);
    CHECK(f.told->stops.size() == 1);
    pass(30s);
    REQUIRE(f.told->stops.size() == 2);
    CHECK(f.told->stops[1].reason.find("it has answered nothing for 120 s") != std::string::npos);
  }
}

TEST_CASE("trainer, ranks: a rank that has not got what was sent to it is lost") {
  RankedTrainer f(limited(0, 100));
  f.join();
  f.told->deaf = true;
  f.pass(10s);
  CHECK(f.told->pings > 0);
  CHECK(f.told->stops.empty());  // it takes part in no update
  f.stage();
  f.pass(10s);
  REQUIRE(f.told->stops.size() == 1);
  CHECK(f.told->stops[0].reason.find("what was sent to it has not arrived") != std::string::npos);
  CHECK(f.all.heard->updates.size() == 1);  // without it
}

TEST_CASE("trainer, ranks: an update in which nothing comes although all ranks answer begins again") {
  RankedTrainer f(limited(0, 100));
  f.join();
  f.stage();
  f.answer();
  f.stage();
  for (int beat = 0; beat < 12; ++beat) f.pass(10s);
  CHECK(f.told->updates.size() == 2);
  for (int beat = 0; beat < 2; ++beat) f.pass(10s);
  CHECK(f.told->updates.size() == 3);
  CHECK(f.told->states == 2);
  CHECK(f.told->stops.empty());
  f.answer();
  CHECK(f.all.heard->updates.size() == 2);
  for (int beat = 0; beat < 20; ++beat) f.pass(10s);  // no update is under way
  CHECK(f.told->updates.size() == 3);
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
  CHECK(f.all.heard->ranks.size() == 1);
  CHECK(f.all.heard->ranks.back().up == 2);
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

TEST_CASE("trainer, ranks: gradients have a process group, which is another one after a failure without a lost rank") {
  RankedTrainer f(limited(0, 100));
  f.context->make_gradient_backend = [backend = make_in_process_backend()](const std::string&) { return backend; };
  f.join();
  f.stage();
  const auto group = [&] { return f.told->updates.back().gradients; };
  const auto wanted = [](uint64_t generation) {
    return std::vector<Rendezvous>{{.host = "in_process", .generation = generation, .rank = 1, .size = 2}};
  };
  CHECK(group() == wanted(1));
  f.answer();
  f.stage();
  CHECK(group() == wanted(1));
  f.send(f.trainer, GradientsFailed{1, "rank 1: broken"});
  f.pass(5s);
  CHECK(f.told->updates.size() == 2);
  f.pass(2s);
  REQUIRE(f.told->updates.size() == 3);  // it begins again, and the rank gets the state from before it
  CHECK(group() == wanted(2));
  CHECK(f.told->states == 2);
  CHECK(f.learner->loaded == 1);
  f.send(f.trainer, GradientsFailed{1, "rank 1: broken"});
  f.pass(7s);
  CHECK(f.told->updates.size() == 3);
  f.send(f.trainer, GradientsFailed{2, "rank 1: broken"});
  f.answer();
  f.pass(7s);
  CHECK(f.told->updates.size() == 3);  // that update is complete
  f.stage();
  CHECK(group() == wanted(3));
  CHECK(f.told->states == 2);
}

TEST_CASE("trainer, ranks: an update whose gradients fail again and again ends the run") {
  RankedTrainer f(limited(0, 100));
  f.context->make_gradient_backend = [backend = make_in_process_backend()](const std::string&) { return backend; };
  f.join();
  f.stage();
  f.answer();
  f.stage();
  for (uint64_t generation = 1; generation <= 3; ++generation) {
    CHECK(f.told->updates.size() == 1 + generation);
    CHECK(f.told->updates.back().gradients.front().generation == generation);
    f.send(f.trainer, GradientsFailed{generation, "rank 1: broken"});
    f.pass(7s);
  }
  CHECK(f.told->updates.size() == 4);  // it did not begin again
  f.stage();                           // to nobody
  CHECK(f.all.heard->updates.size() == 1);
}

TEST_CASE("trainer, ranks: a lost rank ends the process group, and one rank alone needs none") {
  RankedTrainer f(limited(0, 100));
  f.context->make_gradient_backend = [backend = make_in_process_backend()](const std::string&) { return backend; };
  f.join();
  f.stage();
  f.send(f.trainer, GradientsFailed{1, "rank 1: left"});
  f.lose_rank();
  f.pass(7s);
  CHECK(f.all.heard->updates.size() == 1);
  CHECK(f.learner->loaded == 1);
}
