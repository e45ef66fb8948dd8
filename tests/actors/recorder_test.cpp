#include "actors/recorder.h"

#include <algorithm>
#include <future>
#include <mutex>
#include <vector>

#include <caf/scoped_actor.hpp>

#include "runtime/base/memory_disk.h"
#include "runtime/caf/owned_system.h"
#include "tests/actors/one_actor.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

using Supervisor = caf::typed_actor<caf::reacts_to<CheckpointWritten>>;

CheckpointMessage checkpoint_at(uint64_t updates) {
  CheckpointMessage message;
  message.learner = std::make_shared<const LearnerState>();
  message.version = {0, updates};
  return message;
}

SnapshotMessage snapshot_at(uint64_t env_steps, SnapshotUse use) {
  auto snapshot = std::make_shared<StatsSnapshot>();
  snapshot->env_steps = env_steps;
  return {snapshot, use};
}

// A disk that refuses each checkpoint while `full`.
class FullDisk final : public RunSink {
 public:
  void save(const Checkpoint&) override {
    if (full) throw std::runtime_error("the disk is full");
  }
  void record(const StatsSnapshot&) override {}
  void show(const StatsSnapshot&) override {}

  bool full = true;
};

// A disk that takes until release() for the first checkpoint. `writing` is ready when that begins, `shown` when the
// snapshot with 3 environment steps is published.
class SlowDisk final : public RunSink {
 public:
  void save(const Checkpoint& checkpoint) override {
    note("save " + std::to_string(checkpoint.updates));
    if (checkpoint.updates > 1) return;
    writing.set_value();
    released_.get_future().wait();
  }
  void record(const StatsSnapshot& snapshot) override { note("record " + std::to_string(snapshot.env_steps)); }
  void record_warmup(const StatsSnapshot& snapshot) override { note("warm-up " + std::to_string(snapshot.env_steps)); }
  void show(const StatsSnapshot& snapshot) override { note("show " + std::to_string(snapshot.env_steps)); }
  void publish(const StatsSnapshot& snapshot) override {
    note("publish " + std::to_string(snapshot.env_steps));
    if (snapshot.env_steps == 3) shown.set_value();
  }
  void keep_alarms(const StatsSnapshot& snapshot) override { note("alarms " + std::to_string(snapshot.env_steps)); }
  void release() { released_.set_value(); }
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

  std::promise<void> writing, shown;

 private:
  void note(const std::string& call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
  }

  std::promise<void> released_;
  std::mutex mutex_;
  std::vector<std::string> calls_;
};

bool ready(std::promise<void>& promise) { return promise.get_future().wait_for(60s) == std::future_status::ready; }

}  // namespace

TEST_CASE("recorder: checkpoints that cannot be written are logged once a minute, with the number of the others") {
  OneActor f{RunConfig{}};
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  const auto sink = std::make_shared<FullDisk>();
  const Peer supervisor = f.add_peer();
  const auto actor = f.keep(f.system->spawn(recorder, RunContextPtr(f.context), sink, supervisor.as<Supervisor>()));
  const auto save = [&](uint64_t first, uint64_t last) {
    for (uint64_t updates = first; updates <= last; ++updates) supervisor.tell(actor, checkpoint_at(updates));
    f.run();
  };
  const auto lines = [&] {
    const std::string log = disk.read("log");
    return std::count(log.begin(), log.end(), '\n');
  };
  const auto logged = [&](const std::string& text) { return disk.read("log").find(text) != std::string::npos; };
  save(1, 58);
  CHECK(lines() == 1);
  CHECK(logged("error   recorder: checkpoint at update 1: the disk is full\n"));
  f.pass(1min);
  save(59, 59);
  CHECK(lines() == 2);
  CHECK(logged("error   recorder: checkpoint at update 59: the disk is full; 57 more since the line before\n"));
  sink->full = false;
  save(60, 70);
  sink->full = true;
  save(71, 72);
  supervisor.tell(actor, Stop{"done"});
  f.run();
  CHECK(lines() == 3);
  CHECK(logged("error   recorder: checkpoints: 2 more could not be written\n"));
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("recorder: console and statistics go on while a checkpoint is written, and the disk gets all in order") {
  open_log(nullptr, {.to_stderr = false});
  const auto sink = std::make_shared<SlowDisk>();
  OwnedSystem owned({.scheduler = SchedulerKind::threads, .network_config = {}}, register_messages);
  {
    caf::scoped_actor supervisor(owned.get());
    const auto handle = caf::actor_cast<Supervisor>(caf::actor_cast<caf::strong_actor_ptr>(supervisor->address()));
    auto context = std::make_shared<RunContext>();
    const RecorderActor actor =
        spawn_on(owned.get(), /*own_thread=*/true, recorder, RunContextPtr(context), sink, handle);
    supervisor->monitor(actor);
    const auto tell = [&](auto message) {
      supervisor->send(caf::actor_cast<caf::actor>(caf::actor_cast<caf::strong_actor_ptr>(actor)), std::move(message));
    };
    tell(checkpoint_at(1));
    REQUIRE(ready(sink->writing));
    tell(snapshot_at(1, SnapshotUse::point));
    tell(snapshot_at(5, SnapshotUse::warmup));
    tell(checkpoint_at(2));
    tell(snapshot_at(2, SnapshotUse::report));
    tell(snapshot_at(3, SnapshotUse::port));
    CHECK(ready(sink->shown));
    CHECK(sink->calls() == std::vector<std::string>{"save 1", "show 2", "publish 3"});
    sink->release();
    tell(Stop{"done"});
    int written = 0;
    bool ended = false;
    while (!ended) {
      supervisor->receive([&](const CheckpointWritten&) { ++written; }, [&](const caf::down_msg&) { ended = true; },
                          caf::after(60s) >>
                              [&] {
                                FAIL_CHECK("the recorder does not end");
                                ended = true;
                              });
    }
    CHECK(written == 2);
    CHECK(sink->calls() ==
          std::vector<std::string>{"save 1", "show 2", "publish 3", "record 1", "warm-up 5", "save 2", "alarms 2"});
  }
  CHECK(owned.await_actors(60s));
  close_log();
}

TEST_CASE("recorder: a lock that is lost ends it, with the reason, though another actor writes") {
  class NoLock final : public RunSink {
   public:
    void save(const Checkpoint&) override { throw LockLost("run", "another process has the folder"); }
    void record(const StatsSnapshot&) override {}
    void show(const StatsSnapshot&) override {}
  };
  open_log(nullptr, {.to_stderr = false});
  OwnedSystem owned({.scheduler = SchedulerKind::threads, .network_config = {}}, register_messages);
  {
    caf::scoped_actor supervisor(owned.get());
    const auto handle = caf::actor_cast<Supervisor>(caf::actor_cast<caf::strong_actor_ptr>(supervisor->address()));
    auto context = std::make_shared<RunContext>();
    const RecorderActor actor = spawn_on(owned.get(), /*own_thread=*/true, recorder, RunContextPtr(context),
                                         std::shared_ptr<RunSink>(std::make_shared<NoLock>()), handle);
    supervisor->monitor(actor);
    supervisor->send(caf::actor_cast<caf::actor>(caf::actor_cast<caf::strong_actor_ptr>(actor)), checkpoint_at(1));
    supervisor->receive(
        [](const caf::down_msg& down) {
          CHECK_MESSAGE(describe(down.reason).find("another process has the folder") != std::string::npos,
                        describe(down.reason));
        },
        caf::after(60s) >> [] { FAIL_CHECK("the recorder does not end"); });
  }
  CHECK(owned.await_actors(60s));
  close_log();
}
