// Inference processes that join a run, are killed or frozen, and receive their weights over Gloo.
#include <signal.h>

#include <atomic>

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/config/config.h"
#include "actors/network_messages.h"
#include "runtime/caf/listen.h"
#include "tests/process/peer.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kUntilStopped = set({"stop.env_steps=0", "stop.updates=1000000", "trainer.epochs=1"});

std::unique_ptr<Process> start_inference(const std::string& address) {
  return std::make_unique<Process>(Words{"troupe", "inference", "--connect", address});
}

uint64_t count_of(const std::string& folder, const char* table, uint64_t inference_index) {
  const Json metrics = metrics_of(folder);
  const std::string name = "inference " + std::to_string(inference_index);
  return metrics.is_null() || !metrics.at(table).contains(name) ? 0 : metrics.at(table).at(name).get<uint64_t>();
}

uint64_t rows_served(const TrainProcess& run, uint64_t inference_index) {
  return count_of(run.folder(), "rows_served", inference_index);
}

bool serves(const TrainProcess& run, uint64_t inference_index) {
  return eventually(
      [&] { return log_has(run.folder(), "inference process " + std::to_string(inference_index) + " serves"); });
}

// Waits until this inference actor has served more rows than now; false at the deadline.
bool keeps_serving(const TrainProcess& run, uint64_t inference_index) {
  const uint64_t before = rows_served(run, inference_index);
  return eventually([&] { return rows_served(run, inference_index) > before; });
}

void check_summary(const Json& summary) {
  REQUIRE(summary.is_object());
  CHECK_MESSAGE(balances(summary.at("ledger")), summary.at("ledger").dump());
  CHECK(summary.at("last_start").at("lag").at("max") <= summary.at("last_start").at("lag").at("cap"));
}

// Settings for CartPole without velocities and a model with an LSTM of this size.
Words lstm(int size) {
  return set({R"(env.params={"velocities": false})", "model.kind=net", "trainer.epochs=1",
              R"(model.net={"trunk": [], "core": {"kind": "lstm", "size": )" + std::to_string(size) + "}}"});
}

void check_end(TrainProcess& run) {
  CHECK(run.interrupt().value_or(-1) == 130);
  check_summary(run.summary());
}

// The join service of a run that accepts every inference process and counts those whose signature is not empty.
JoinService::behavior_type welcoming_run(JoinService::pointer, const std::string& config, std::atomic<int>* served) {
  return {[config](const JoinRequest&) {
            Welcome welcome;
            welcome.config = config;
            return welcome;
          },
          [served](const ServeRequest& request) { *served += request.signature.tensors.empty() ? 0 : 1; },
          [](const RankReady&) {}, [](const Serving&) {}};
}

}  // namespace

TEST_CASE("inference: a process without the GPU that the run's config names joins and computes on the CPU") {
  for (const std::string device : {"auto", "cuda:998"}) {
    CAPTURE(device);
    RunConfig config;
    config.trainer.device = "cuda:999";
    config.inference.device = device;
    std::atomic<int> served = 0;
    Peer peer;
    const JoinService run = peer.system->spawn(welcoming_run, to_json(config), &served);
    const uint16_t port = listen(*peer.system, run, "127.0.0.1", 0, messages_to_run());
    const Words line{"troupe", "inference", "--connect", "127.0.0.1:" + std::to_string(port)};
    for (const Words& more : {Words{}, Words{"--device", "cpu"}}) {
      const int before = served;
      Process process(line + more);
      CHECK_MESSAGE(eventually([&] { return served > before || process.exit_code(); }), process.err());
      CHECK_MESSAGE(served > before, process.err());
      const bool falls_back = device != "auto" && more.empty();
      CHECK(has(process.err(),
                "the run's inference.device is \"cuda:998\", which this process does not have; "
                "computing on the CPU. --device chooses another device\n") == falls_back);
      process.signal(SIGINT);
      CHECK(process.wait().value_or(-1) == 130);
    }
    check_refused(CommandLine(line + Words{"--device", "cuda:999"}), "--device: \"cuda:999\", but this ");
    peer.system->middleman().unpublish(caf::actor_cast<caf::actor>(run), port);
    caf::anon_send_exit(run, caf::exit_reason::user_shutdown);
  }
}

TEST_CASE("inference: a run with inference.count 0 does not need the device inference.device") {
  TempFolder folder;
  const Words settings = set({"inference.count=0", "inference.device=cuda:999", "stop.updates=3", "stop.env_steps=0"});
  TrainProcess run(folder / "run", settings);
  const auto inference = start_inference(run.workers_at());
  CHECK(run.process().wait().value_or(-1) == 0);
  CHECK(inference->wait().value_or(-1) == 0);
  CHECK(has(inference->err(), "computing on the CPU"));
  CHECK(run.summary().at("updates") == 3);
}

TEST_CASE(
    "inference: a run with inference.count 0 waits for an inference process, which serves local and remote workers") {
  TempFolder folder;
  TrainProcess run(folder / "run",
                   set({"inference.count=0", "stop.env_steps=0", "stop.updates=60", "trainer.epochs=1"}));
  const auto worker = start_worker(run.workers_at());
  REQUIRE(eventually([&] { return log_has(run.folder(), "worker 1 connected"); }));
  CHECK(run.updates() == 0);
  REQUIRE(eventually(
      [&] { return run.process().out().find("bottleneck: waiting for an inference process") != std::string::npos; }));
  const auto inference = start_inference(run.workers_at());
  CHECK(run.process().wait().value_or(-1) == 0);
  check_summary(run.summary());
  CHECK(run.summary().at("updates") == 60);
  CHECK(rows_served(run, 0) >= 60 * 1024);
  CHECK(inference->wait().value_or(-1) == 0);
  CHECK(worker->wait().value_or(-1) == 0);
}

TEST_CASE("inference: a recurrent run continues when its only inference process is killed and another one joins") {
  TempFolder folder;
  TrainProcess run(folder / "run", kUntilStopped + lstm(16) + set({"inference.count=0"}));
  const auto worker = start_worker(run.workers_at());
  const auto first = start_inference(run.workers_at());
  REQUIRE(serves(run, 0));
  REQUIRE(run.makes_updates(5));
  first->signal(SIGKILL);
  REQUIRE(eventually([&] { return log_has(run.folder(), "inference process 0 is gone"); }));
  const auto second = start_inference(run.workers_at());
  REQUIRE(serves(run, 1));
  CHECK(keeps_serving(run, 1));
  CHECK(run.makes_updates(5));
  check_end(run);
  CHECK_MESSAGE(second->wait().value_or(-1) == 0, second->err());
  CHECK_MESSAGE(worker->wait().value_or(-1) == 0, worker->err());
}

TEST_CASE("inference: requests and replies above the size limit of messages reach local and remote workers") {
  TempFolder folder;
  // The recurrent state in a reply is 1024 x 512 floats, 2 MiB. The limit of a message is 1 MiB + 4 x chunk_bytes.
  const Words large = set({"network.chunk_bytes=4096", "inference.count=0", "env.rows=1024", "workers.groups=1",
                           "inference.max_batch=4096", "rollout.length=8", "trainer.super_batch=8192",
                           "stop.env_steps=0", "stop.updates=4"});
  TrainProcess run(folder / "run", lstm(256) + large);
  const auto worker = start_worker(run.workers_at());
  REQUIRE(eventually(
      [&] { return log_has(run.folder(), " connected from"); }));  // the run's own worker could do without it
  const auto inference = start_inference(run.workers_at());
  CHECK(run.process().wait().value_or(-1) == 0);
  CHECK_MESSAGE(inference->wait().value_or(-1) == 0, inference->err());
  CHECK_MESSAGE(worker->wait().value_or(-1) == 0, worker->err());
  REQUIRE(run.summary().is_object());
  CHECK(run.summary().at("updates") == 4);
  check_summary(run.summary());
  CHECK(!log_has(run.folder(), "is closed"));
  CHECK(!log_has(run.folder(), "is gone"));
}

TEST_CASE("inference: when an inference process is killed, the inference actor of the run serves its workers") {
  TempFolder folder;
  TrainProcess run(folder / "run", kUntilStopped + set({"workers.count=2"}));
  const auto inference = start_inference(run.workers_at());
  REQUIRE(serves(run, 1));
  REQUIRE(keeps_serving(run, 1));
  inference->signal(SIGKILL);
  REQUIRE(eventually([&] { return log_has(run.folder(), "inference process 1 is gone"); }));
  CHECK(run.makes_updates(5));
  check_end(run);
}

TEST_CASE(
    "inference: the run's statistics say that the receiver of weights in an inference process is mostly blocked") {
  TempFolder folder;
  TrainProcess run(folder / "run", kUntilStopped);
  const auto inference = start_inference(run.workers_at());
  const auto blocked = [&](const char* kind) {
    const Json stats = metrics_of(run.folder());
    const Json actors = stats.is_null() ? Json() : stats.value("joined_actors", Json());
    const Json shares = actors.is_null() ? Json() : actors.value("blocked", Json());
    return shares.is_null() ? 0.0 : shares.value(kind, 0.0);
  };
  REQUIRE(serves(run, 1));
  CHECK(eventually([&] { return blocked("weight receiver") > 0.5; }));
  CHECK(blocked("inference") < 0.5);  // it computes on the CPU
  check_end(run);
}

TEST_CASE("inference: after the last inference process is killed the run prints that it waits for one") {
  TempFolder folder;
  TrainProcess run(folder / "run", kUntilStopped + set({"inference.count=0"}));
  const auto inference = start_inference(run.workers_at());
  REQUIRE(serves(run, 0));
  REQUIRE(run.makes_updates(2));
  inference->signal(SIGKILL);
  CHECK(eventually([&] {
    const std::string out = run.process().out();
    const size_t last = out.rfind("bottleneck: ");
    return last != std::string::npos && out.compare(last, 44, "bottleneck: waiting for an inference process") == 0;
  }));
  CHECK(eventually([&] { return metrics_of(run.folder()).at("inference").at("up") == 0; }));
  for (const std::string& text : {run.process().err(), text_of(run.folder() + "/log.txt")}) {
    CHECK(text.find("GLHF") == std::string::npos);
    CHECK(text.find("/pair.cc") == std::string::npos);
    CHECK(text.find("is connected to") == std::string::npos);
  }
  check_end(run);
}

TEST_CASE(
    "inference: a frozen process is removed and joins again after SIGCONT; one that joins in between serves too") {
  TempFolder folder;
  TrainProcess run(folder / "run", kUntilStopped + set({"workers.count=3", "network.transfer_timeout_ms=1000"}));
  const auto frozen = start_inference(run.workers_at());
  REQUIRE(serves(run, 1));
  REQUIRE(keeps_serving(run, 1));
  frozen->signal(SIGSTOP);
  REQUIRE(eventually([&] { return log_has(run.folder(), "inference process 1 is gone"); }));
  CHECK(run.makes_updates(5));
  const auto late = start_inference(run.workers_at());
  REQUIRE(serves(run, 2));
  CHECK(keeps_serving(run, 2));
  frozen->signal(SIGCONT);
  REQUIRE(serves(run, 3));
  CHECK(keeps_serving(run, 3));
  CHECK(keeps_serving(run, 2));
  CHECK(run.makes_updates(5));
  CHECK(count_of(run.folder(), "weights_behind", 3) <= 3);
  check_end(run);
  CHECK_MESSAGE(frozen->wait().value_or(-1) == 0, frozen->err());
  CHECK_MESSAGE(late->wait().value_or(-1) == 0, late->err());
}

TEST_CASE("inference: a worker that was frozen until its connection was lost is served again after it joins again") {
  TempFolder folder;
  TrainProcess run(folder / "run", kUntilStopped + set({"workers.count=0", "inference.count=0",
                                                        "network.heartbeat_ms=200", "network.peer_timeout_ms=1500"}));
  const auto inference = start_inference(run.workers_at());
  const auto process = start_worker(run.workers_at());
  REQUIRE(serves(run, 0));
  for (int cycle = 0; cycle < 2; ++cycle) {
    REQUIRE(keeps_serving(run, 0));
    const size_t ended = log_count(run.folder(), " ended: "), joined = log_count(run.folder(), " connected from");
    process->signal(SIGSTOP);
    REQUIRE(eventually([&] { return log_count(run.folder(), " ended: ") > ended; }));
    process->signal(SIGCONT);
    REQUIRE(eventually([&] { return log_count(run.folder(), " connected from") > joined; }));
  }
  CHECK(keeps_serving(run, 0));
  CHECK(run.makes_updates(5));
  check_end(run);
}

TEST_CASE("inference: a run whose weights stay in its process refuses inference processes and trains on") {
  TempFolder folder;
  TrainProcess run(folder / "run", kUntilStopped + set({"network.weights=in_process"}));
  const CommandLine refused({"troupe", "inference", "--connect", run.workers_at()});
  CHECK(refused.exit_code == 2);
  CHECK_MESSAGE(has(refused.err, "this run sends no weights to other processes; train with network.weights \"gloo\""),
                refused.err);
  CHECK(run.makes_updates());
  check_end(run);
}

TEST_CASE("inference: Ctrl-C ends a process with 130 and not the run; an address without a run is an error") {
  TempFolder folder;
  TrainProcess run(folder / "run", kUntilStopped);
  const auto inference = start_inference(run.workers_at());
  REQUIRE(serves(run, 1));
  inference->signal(SIGINT);
  CHECK(inference->wait().value_or(-1) == 130);
  CHECK(run.makes_updates());
  const std::string address = run.workers_at();
  check_end(run);
  const CommandLine nobody({"troupe", "inference", "--connect", address, "--wait", "0"});
  CHECK(nobody.exit_code == 2);
  CHECK(nobody.err.find(address + ": cannot connect") != std::string::npos);
}
