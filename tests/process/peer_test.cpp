// CAF peers that violate the protocol of troupe, and the errors about addresses that are not those of a run.
#include <unistd.h>

#include <atomic>

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/config/config.h"
#include "actors/network_messages.h"
#include "actors/run_context.h"
#include "actors/spec_fields.h"
#include "envs/make/make_env.h"
#include "models/weights/model_weights.h"
#include "runtime/caf/listen.h"
#include "tests/process/peer.h"
#include "tests/process/raw_connection.h"
#include "tests/process/train_process.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000"});

}  // namespace

TEST_CASE("ports: a peer with another protocol number is refused by the run") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.makes_updates());  // before that, a run refuses workers
  Peer peer;
  const auto server = peer.system->middleman().remote_actor<JoinService>("127.0.0.1", port_of(run.workers_at()));
  REQUIRE(server);
  std::string answer;
  caf::scoped_actor self(*peer.system);
  self->request(*server, kPatience, JoinRequest{kProtocolVersion + 1, "worker", "here", 1})
      .receive([&](const Welcome&) { answer = "welcome"; }, [&](const caf::error& error) { answer = describe(error); });
  CHECK(has(answer, "the run speaks protocol " + std::to_string(kProtocolVersion) + ", the worker " +
                        std::to_string(kProtocolVersion + 1)));
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("ports: messages without a sender end neither the run nor an actor of it") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.makes_updates());  // before that, a run refuses workers
  Peer peer;
  const auto server = peer.system->middleman().remote_actor<JoinService>("127.0.0.1", port_of(run.workers_at()));
  REQUIRE(server);
  std::optional<Welcome> welcome;
  caf::scoped_actor self(*peer.system);
  const JoinRequest request{kProtocolVersion, "worker", "here", 1};
  caf::anon_send(*server, request);
  self->request(*server, kPatience, request).receive([&](const Welcome& w) { welcome = w; }, [](const caf::error&) {});
  REQUIRE(welcome.has_value());
  caf::anon_send(welcome->inference, InferenceRequest{});
  caf::anon_send(welcome->replay, WorkerHello{7, 1, 128});
  caf::anon_send(welcome->replay, Applied{9, {}});
  std::string answer;  // comes after the messages above were delivered: they use the same connection
  self->request(*server, kPatience, JoinRequest{kProtocolVersion + 1, "worker", "here", 1})
      .receive([](const Welcome&) {}, [&](const caf::error& error) { answer = describe(error); });
  CHECK(has(answer, "the run speaks protocol"));
  CHECK(run.makes_updates());
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(!has(run.process().err(), "ended:"));
}

namespace {

template <class Handle>
void send_error(caf::scoped_actor& self, const Handle& to) {
  self->send(caf::actor_cast<caf::actor>(caf::actor_cast<caf::strong_actor_ptr>(to)),
             caf::error(caf::sec::unexpected_message));
}

// An inference actor whose replies have no values.
InferenceService::behavior_type nonsense(InferenceService::pointer self, std::atomic<int>* answered) {
  return {[=](const InferenceRequest& request) {
            InferenceReply reply;
            reply.id = request.id;
            reply.group = request.group;
            reply.body = StepReply{};
            self->send(caf::actor_cast<InferenceClient>(self->current_sender()), std::move(reply));
            ++*answered;
          },
          [](const Part&) {}, [](const Pause&) {}};
}

}  // namespace

TEST_CASE("ports: errors that a peer sends to the actors of a run end none of them") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.makes_updates());
  Peer peer;
  const auto server = peer.system->middleman().remote_actor<JoinService>("127.0.0.1", port_of(run.workers_at()));
  REQUIRE(server);
  caf::scoped_actor self(*peer.system);
  std::optional<Welcome> welcome;
  self->request(*server, kPatience, JoinRequest{kProtocolVersion, "worker", "here", 1})
      .receive([&](const Welcome& w) { welcome = w; }, [](const caf::error&) {});
  REQUIRE(welcome.has_value());
  send_error(self, welcome->inference);
  send_error(self, welcome->replay);
  send_error(self, welcome->stats);
  send_error(self, *server);
  CHECK(eventually([&] { return log_count(run.folder(), "reports is ignored") == 4; }));
  const std::string line = "an error that process " + std::to_string(getpid()) + " reports is ignored: ";
  CHECK(log_count(run.folder(), line) == 4);
  CHECK(run.makes_updates());
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(!has(run.process().err(), "ended:"));
  CHECK(!has(run.process().err(), "***"));
}

TEST_CASE("ports: an inference process whose replies do not fit is removed, and its workers continue with another") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + set({"workers.count=2", "network.transfer_timeout_ms=10000"}));
  REQUIRE(run.makes_updates());
  Peer peer;
  const auto server = peer.system->middleman().remote_actor<JoinService>("127.0.0.1", port_of(run.workers_at()));
  REQUIRE(server);
  caf::scoped_actor self(*peer.system);
  std::optional<Welcome> welcome;
  self->request(*server, kPatience, JoinRequest{kProtocolVersion, "inference", "here", 1})
      .receive([&](const Welcome& w) { welcome = w; }, [](const caf::error&) {});
  REQUIRE(welcome.has_value());
  const RunConfig config = parse_config(welcome->config, "the run's config");
  std::atomic<int> answered = 0;
  const InferenceService inference = peer.system->spawn(nonsense, &answered);
  bool taken = false;
  RunContext context;
  context.spec = make_env(config.env)->spec();
  const ServeRequest serve{welcome->member, inference, model_signature(config.model, context.spec), "127.0.0.1",
                           spec_fields(context)};
  self->request(*server, kPatience, serve).receive([&] { taken = true; }, [](const caf::error&) {});
  REQUIRE(taken);
  self->send(*server, Serving{welcome->member});
  const bool gone = eventually([&] {
    // Of actions, or of extra values if an episode has just been truncated.
    return log_has(run.folder(), "inference process 1 is gone (a reply does not fit its request: ");
  });
  CHECK_MESSAGE(gone, text_of(run.folder() + "/log.txt"));
  CHECK(answered >= 1);
  CHECK(run.makes_updates(3));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(!has(run.process().err(), "ended:"));
}

namespace {

JoinService::behavior_type unwelcoming_join_server(JoinService::pointer) {
  return {[](const JoinRequest&) -> caf::result<Welcome> { return make_error(Fault::bad_message, "another protocol"); },
          [](const ServeRequest&) {}, [](const RankReady&) {}, [](const Serving&) {}};
}

CommandLine worker_to(const std::string& address) {
  return CommandLine({"troupe", "worker", "--connect", address, "--wait", "0"});
}

}  // namespace

TEST_CASE("worker: an address that is not that of a run gives a one-line error") {
  TempFolder folder;
  const Server mute(""), web("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  check_refused(worker_to("127.0.0.1:1"), "127.0.0.1:1: cannot connect");
  const std::string nowhere = std::string(64, 'a') + ":5";  // too long for a host name: no name server is asked
  check_refused(worker_to(nowhere), nowhere + ": cannot connect: the host name cannot be resolved: ");
  check_refused(worker_to(mute.address()), mute.address() + ": cannot connect");
  check_refused(worker_to(web.address()), web.address() + ": cannot connect");
  TrainProcess run(folder / "run", kEndless);
  check_refused(worker_to(run.stats_at()), run.stats_at() + ": cannot connect");
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("worker: the address of a node and a run that refuses the worker give a one-line error") {
  NodeProcess node;
  check_refused(worker_to(node.address()), node.address() + ": a troupe process answers there that is not a run");

  Peer peer;
  const JoinService server = peer.system->spawn(unwelcoming_join_server);
  const uint16_t port = listen(*peer.system, server, "127.0.0.1", 0, messages_to_run());
  check_refused(worker_to("127.0.0.1:" + std::to_string(port)), "the run refuses");
  peer.system->middleman().unpublish(caf::actor_cast<caf::actor>(server), port);
  // The registry may still hold the actor, and the actor system would wait for it at its end.
  caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
}
