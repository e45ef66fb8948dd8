#include "actors/replay_buffer.h"

#include "runtime/base/memory_disk.h"
#include "tests/actors/one_actor.h"
#include "tests/actors/rollouts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

// Rollouts of 8 samples, one group per worker.
RunConfig small_config() {
  RunConfig config;
  config.env.rows = 2;
  config.workers.groups = 1;
  config.rollout.length = 4;
  config.trainer.super_batch = 16;
  return config;
}

struct Fixture : OneActor {
  explicit Fixture(bool deterministic = false, const RunConfig& config = small_config()) : OneActor(config) {
    context->deterministic = deterministic;
    replay = keep(system->spawn(replay_buffer, RunContextPtr(context), ReplayStart{}, peers.as<StatsActor>(),
                                peers.as<caf::typed_actor<caf::reacts_to<SamplingFailed>>>()));
    run();
  }
  Peer joined(uint64_t worker, uint32_t groups = 1) {
    Peer result = add_peer();
    result.tell(replay, WorkerHello{worker, groups, 8, spec_fields(*context)});
    run();
    return result;
  }
  ReplayState& state() { return state_of<ReplayState>(replay); }
  uint64_t uncounted() {
    REQUIRE(!peers.heard->replay.empty());
    return peers.heard->replay.back().uncounted;
  }

  Peer peers = add_peer();
  ReplayActor replay;
};

}  // namespace

TEST_CASE("replay_buffer: a worker whose hello does not fit the run gets an exit message") {
  Fixture f;
  const Peer worker = f.joined(1, /*groups=*/1000);
  CHECK(f.state().workers.empty());
  REQUIRE(worker.heard->exits.size() == 1);
  CHECK(fault_of(worker.heard->exits[0]) == Fault::bad_message);
}

TEST_CASE("replay_buffer: a worker with another action spec is refused for good, with both values") {
  Fixture f;
  const Peer worker = f.add_peer();
  RunContext other = *f.context;
  other.spec.action.bins = {7};
  worker.tell(f.replay, WorkerHello{1, 1, 8, spec_fields(other)});
  f.run();
  CHECK(f.state().workers.empty());
  REQUIRE(worker.heard->exits.size() == 1);
  CHECK(fault_of(worker.heard->exits[0]) == Fault::incompatible);
  CHECK(describe(worker.heard->exits[0]) ==
        "the worker does not fit the run: number of choices of each action is [7], in the run [" +
            std::to_string(f.context->spec.action.bins.front()) + "]");
}

TEST_CASE("replay_buffer: a worker that holds credits and makes no step loses them to the others") {
  Fixture f;
  f.peers.tell(f.replay, Applied{0, {}});
  const Peer silent = f.joined(1), busy = f.joined(2), waiting = f.joined(3);
  REQUIRE(silent.heard->credits == 2);
  REQUIRE(busy.heard->credits == 2);
  REQUIRE(waiting.heard->credits == 0);  // two super-batches are promised
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  busy.tell(f.replay, RolloutMessage{make_rollout({.worker = 2})});
  for (uint64_t beats = 1; beats <= 125; ++beats) {  // a little longer than workers.credit_timeout_ms
    WorkerReport report;
    report.worker = 2;
    report.env_steps = beats;
    busy.tell(f.replay, report);
    f.pass(500ms);
  }
  CHECK(f.state().store->credits_of(1) == 0);
  CHECK(f.state().store->credits_revoked() == 2);
  CHECK(f.state().store->credits_of(2) > 0);
  CHECK(waiting.heard->credits > 0);
  const std::string log = disk.read("log");
  CHECK(log.find("warning replay: worker 1 has made no step for 60") != std::string::npos);
  CHECK(log.find("loses its 2 credits") != std::string::npos);
  CHECK(log.find("worker 2") == std::string::npos);

  // It may use what it was granted, and gets nothing new before.
  silent.tell(f.replay, RolloutMessage{make_rollout({.worker = 1})});
  f.run();
  CHECK(f.state().store->credits_revoked() == 1);
  CHECK(silent.heard->credits == 2);
  silent.tell(f.replay, RolloutMessage{make_rollout({.worker = 1, .sequence = 1})});
  f.run();
  CHECK(f.state().store->credits_revoked() == 0);
  CHECK(f.state().store->ledger().balances());
  CHECK(disk.read("log").find("worker 1 makes steps again") != std::string::npos);
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("replay_buffer: a worker number is refused to others until the worker with that number ends") {
  Fixture f;
  const Peer holder = f.joined(1), other = f.joined(1);
  CHECK(f.state().workers.at(1).address() == holder.actor.address());
  CHECK(f.state().worker_of.size() == 1);
  CHECK(holder.heard->exits.empty());
  CHECK(other.heard->exits.size() == 1);
  f.kill(holder);
  const Peer next = f.joined(1);
  CHECK(f.state().workers.at(1).address() == next.actor.address());
  CHECK(next.heard->exits.empty());
}

TEST_CASE("replay_buffer: while no inference actor serves, no worker loses its credits") {
  Fixture f;
  f.peers.tell(f.replay, Applied{0, {}});
  const Peer worker = f.joined(1);
  REQUIRE(worker.heard->credits == 2);
  worker.tell(f.replay, RolloutMessage{make_rollout({.worker = 1})});
  f.peers.tell(f.replay, ReceiverGone{0});
  for (int beats = 0; beats < 200; ++beats) f.pass(500ms);
  CHECK(f.state().store->credits_revoked() == 0);
  f.add_peer().tell(f.replay, Applied{1, {}});
  for (int beats = 0; beats < 200; ++beats) f.pass(500ms);
  CHECK(f.state().store->credits_revoked() > 0);
}

TEST_CASE("replay_buffer: WorkerGone frees the credits of a worker, and a hello that comes after it is ignored") {
  Fixture f;
  const Peer receiver = f.add_peer();
  receiver.tell(f.replay, Applied{3, {0, 0}});
  const Peer former = f.joined(1);
  REQUIRE(former.heard->credits > 0);
  const Peer other = f.joined(2), next = f.joined(4);
  CHECK(next.heard->credits == 0);
  f.peers.tell(f.replay, WorkerGone{1});
  f.run();
  CHECK(f.state().workers.count(1) == 0);
  CHECK(next.heard->credits == former.heard->credits);

  f.peers.tell(f.replay, WorkerGone{3});
  const Peer late = f.joined(3);
  CHECK(f.state().workers.count(3) == 0);
  CHECK(late.heard->credits == 0);
}

TEST_CASE("replay_buffer: only a receiver itself can report which version it has applied") {
  Fixture f;
  const Peer receiver = f.add_peer(), other = f.add_peer();
  receiver.tell(f.replay, Applied{3, {0, 0}});
  other.tell(f.replay, Applied{3, {0, 0}});
  f.run();
  CHECK(f.state().receiver_of.size() == 1);
  f.kill(other);
  CHECK(f.state().store->applied_number() == 0);
  f.kill(receiver);
  CHECK(!f.state().store->applied_number());
}

TEST_CASE("replay_buffer: samples of a worker that ended are uncounted only if its last report is missing") {
  for (const bool last : {true, false}) {
    CAPTURE(last);
    Fixture f;
    f.peers.tell(f.replay, Applied{0, {0, 0}});
    const Peer worker = f.joined(1);
    f.run();
    REQUIRE(worker.heard->credits == 2);
    WorkerReport report;
    report.worker = 1;
    report.env_steps = 5;
    report.partial = {{0, 5, 5, {}}};
    report.last = last;
    worker.tell(f.replay, report);
    f.kill(worker);
    CHECK(f.uncounted() == (last ? 0 : 2 * 8 - 5));
    CHECK(f.state().store->ledger().lost_in_crash == 5);
  }
}

TEST_CASE("replay_buffer: a report that arrives in parts counts like a whole one") {
  Fixture f;
  f.peers.tell(f.replay, Applied{0, {0, 0}});
  const Peer worker = f.joined(1);
  WorkerReport report;
  report.worker = 1;
  report.env_steps = 5;
  report.partial = {{0, 5, 5, {}}};
  report.last = true;
  for (const Part& part : split(serialize(*f.system, report), PartOf::report, 1, 16)) worker.tell(f.replay, part);
  f.kill(worker);
  CHECK(f.uncounted() == 0);
  CHECK(f.state().store->ledger().lost_in_crash == 5);
}

TEST_CASE("replay_buffer: in a deterministic run workers that fail at moments far apart end the run") {
  Fixture f(/*deterministic=*/true);
  const Peer first = f.joined(0), second = f.joined(1);
  first.tell(f.replay, EnvironmentsFailing{0, "broken"});
  f.run();
  f.pass(30s);
  second.tell(f.replay, EnvironmentsFailing{1, "broken"});
  f.run();
  f.pass(34s);
  CHECK(f.peers.heard->sampling_failed.empty());
  first.tell(f.replay, EnvironmentsFailing{0, "broken"});
  f.run();
  REQUIRE(f.peers.heard->sampling_failed.size() == 1);
  CHECK(f.peers.heard->sampling_failed[0].error.find("broken") != std::string::npos);
}

namespace {

RunConfig two_shards() {
  RunConfig config = small_config();
  config.trainer.shards = 2;
  config.trainer.super_batch = 32;
  return config;
}

// With a worker for each of two shards.
struct ShardsFixture : Fixture {
  explicit ShardsFixture(bool deterministic = true) : Fixture(deterministic, two_shards()) {
    peers.tell(replay, Applied{0, {}});
    for (const uint64_t worker : {0, 1}) workers.push_back(joined(worker));
  }
  uint32_t credits(size_t worker) const { return workers[worker].heard->credits; }
  void push(uint64_t worker) {
    workers[worker].tell(replay, RolloutMessage{make_rollout({.worker = worker, .sequence = sequence++})});
    run();
  }

  std::vector<Peer> workers;
  uint64_t sequence = 0;
};

}  // namespace

TEST_CASE("replay_buffer: with several shards, a deterministic run grants credits when no message is left") {
  ShardsFixture f;
  CHECK(f.credits(0) == 0);
  f.pass(1ms);
  CHECK(f.credits(0) == 2);
  CHECK(f.credits(1) == 2);
}

TEST_CASE("replay_buffer: then it draws when no message is left, and grants nothing until the update has ended") {
  ShardsFixture f;
  f.pass(1ms);
  for (const uint64_t worker : {0, 0, 1, 1}) f.push(worker);
  f.peers.tell(f.replay, next_atom_v);
  f.run();
  CHECK(f.peers.heard->batches == 0);
  f.pass(1ms);
  CHECK(f.peers.heard->batches == 1);
  CHECK(f.credits(0) == 2);
  f.peers.tell(f.replay, UpdateMessage{.version = {0, 1}, .index = 0});
  f.peers.tell(f.replay, Applied{0, {0, 1}});
  f.run();
  CHECK(f.credits(0) == 2);
  f.pass(1ms);
  CHECK(f.credits(0) == 4);
}

TEST_CASE("replay_buffer: it awaits the moment without messages once, however many changes there are") {
  ShardsFixture f;
  f.push(0);  // before it has any credit
  CHECK(f.state().rest_awaited);
  f.pass(1ms);
  CHECK_FALSE(f.state().rest_awaited);
  const uint32_t credits = f.credits(1);
  f.pass(1s);
  CHECK(f.credits(1) == credits);
}

TEST_CASE("replay_buffer: runs with one shard, and those that are not deterministic, grant at once") {
  Fixture one(/*deterministic=*/true);
  one.peers.tell(one.replay, Applied{0, {}});
  CHECK(one.joined(1).heard->credits == 2);
  const ShardsFixture other(/*deterministic=*/false);
  CHECK(other.credits(0) == 2);
  CHECK(other.credits(1) == 2);
}
