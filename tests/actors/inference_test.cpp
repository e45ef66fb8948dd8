#include "actors/inference.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "actors/experience/grid/policy_server.h"
#include "actors/parts.h"
#include "tests/actors/one_actor.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

RunConfig small_config(std::chrono::milliseconds timeout) {
  RunConfig config;
  config.inference.batch_size = 8;
  config.inference.timeout = timeout;
  return config;
}

struct Fixture : OneActor {
  explicit Fixture(const Recurrence& recurrence = {}, std::chrono::milliseconds timeout = 10ms)
      : OneActor(small_config(timeout)) {
    world.faults_on = false;
    world.scenario.recurrence = context->recurrence = recurrence;
    inference = keep(
        system->spawn(inference_actor, RunContextPtr(context), Role::sampling, InferenceIndex{0},
                      InferencePeers{peers.as<PublisherActor>(), peers.as<ReplayService>(), peers.as<StatsService>()}));
    run();
  }
  // A request of one row from group 0 of a worker.
  InferenceRequest request(uint64_t id, uint64_t worker) {
    const int64_t observation = world.new_observation();
    InferenceRequest result;
    result.id = id;
    result.worker = worker;
    StepRequest& steps = result.steps();
    steps.rows = 1;
    steps.observations = {{"id", Array::of<int64_t>({1, 2}, {observation, ~observation})}};
    steps.seeds = Array(DType::i64, {1});
    return result;
  }
  // Sends weights and lets time pass until every pending request is served.
  void serve() {
    peers.tell(inference, WeightsMessage{sim::fake_weights({0, 1}, {0, 1})});
    run();
    pass(10ms);
  }
  InferenceState& state() { return state_of<InferenceState>(inference); }

  Peer peers = add_peer(), client = add_peer(), other = add_peer();
  InferenceActor inference;
};

// A request of `client` is in progress: its batch waits for a request of `other`.
struct SlowBatches : Fixture {
  SlowBatches() : Fixture({}, 40s) {
    serve();
    client.tell(inference, request(5, 1));
    other.tell(inference, request(9, 2));
    run();
    pass(40s);
    client.tell(inference, request(6, 1));
    run();
    REQUIRE(state().pending.size() == 1);
    before = client.heard->replies.size();
  }
  size_t before = 0;  // replies to the client
};

// Throws if a batch contains the observation `bad`.
class FailsOn final : public Policy {
 public:
  FailsOn(std::unique_ptr<Policy> policy, int64_t bad) : policy_(std::move(policy)), bad_(bad) {}
  std::shared_ptr<const Signature> signature() const override { return policy_->signature(); }
  void load(const WeightSnapshot& weights) override { policy_->load(weights); }
  ActOutput act(const ActInput& input) override {
    check(input.observations);
    return policy_->act(input);
  }
  using Policy::values;
  Array values(const Arrays& observations, const Array& state) override {
    check(observations);
    return policy_->values(observations, state);
  }

 private:
  void check(const Arrays& observations) const {
    if (std::ranges::count(observations.at("id").view<int64_t>(), bad_) > 0)
      throw std::runtime_error("observation " + std::to_string(bad_) + " cannot be computed");
  }

  std::unique_ptr<Policy> policy_;
  int64_t bad_;
};

}  // namespace

TEST_CASE(
    "inference: a request that cannot be computed fails with its error, and the others of its batch are answered") {
  Fixture f;
  const Peer third = f.add_peer();
  const InferenceRequest good = f.request(5, 1), bad = f.request(9, 2);
  InferenceRequest values = f.request(7, 3);
  values.steps().rows = 0;
  values.steps().value_observations = std::exchange(values.steps().observations, {});
  const int64_t number = bad.steps().observations.at("id").view<int64_t>()[0];
  f.context->make_policy = [&] { return std::make_unique<FailsOn>(sim::fake_policy(f.world), number); };
  f.client.tell(f.inference, good);
  f.other.tell(f.inference, bad);
  third.tell(f.inference, values);
  f.run();
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  CHECK(f.client.heard->replies[0].fault == Fault::none);
  CHECK(f.client.heard->replies[0].steps().values.view<float>()[0] ==
        sim::value_of({0, 1}, good.steps().observations.at("id").view<int64_t>()[0]));
  REQUIRE(third.heard->replies.size() == 1);
  CHECK(third.heard->replies[0].fault == Fault::none);
  CHECK(third.heard->replies[0].steps().extra_values.view<float>()[0] ==
        sim::value_of({0, 1}, values.steps().value_observations.at("id").view<int64_t>()[0]));
  REQUIRE(f.other.heard->replies.size() == 1);
  CHECK(f.other.heard->replies[0].fault == Fault::forward_failed);
  CHECK(f.other.heard->replies[0].error == "observation " + std::to_string(number) + " cannot be computed");
  CHECK(f.state().server->take_report().batches == 1);
  CHECK(f.state().server->take_report().failed == 2);  // the batch, then the bad request on its own
  CHECK(f.state().pending.empty());
}

TEST_CASE("inference: a request that comes again while it is in progress is answered once") {
  Fixture f;
  const InferenceRequest request = f.request(5, 1);
  f.client.tell(f.inference, request);
  f.client.tell(f.inference, request);
  f.run();
  CHECK(f.state().pending.size() == 1);
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  CHECK(f.client.heard->replies[0].id == 5);
}

TEST_CASE("inference: requests of two actors with the same worker number are both answered") {
  Fixture f;
  f.client.tell(f.inference, f.request(5, 1));
  f.other.tell(f.inference, f.request(9, 1));
  f.run();
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  REQUIRE(f.other.heard->replies.size() == 1);
  CHECK(f.client.heard->replies[0].id == 5);
  CHECK(f.client.heard->replies[0].fault == Fault::none);
  CHECK(f.other.heard->replies[0].id == 9);
}

TEST_CASE("inference: the end of an actor with the worker number of another removes no request of the other") {
  Fixture f;
  f.other.tell(f.inference, f.request(9, 1));
  f.client.tell(f.inference, f.request(5, 1));
  f.run();
  f.kill(f.other);
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  CHECK(f.client.heard->replies[0].id == 5);
  CHECK(f.state().pending.empty());
}

TEST_CASE("inference: a repeated request replaces the one before") {
  Fixture f;
  f.client.tell(f.inference, f.request(5, 1));
  f.client.tell(f.inference, f.request(6, 1));
  f.run();
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  CHECK(f.client.heard->replies[0].id == 6);
}

TEST_CASE("inference: the parts of a sender that ended before its first request was complete are freed") {
  Fixture f;
  const std::vector<Part> parts = split(serialize(*f.system, f.request(5, 1)), PartOf::request, 1, 32);
  REQUIRE(parts.size() > 2);
  f.client.tell(f.inference, parts[0]);
  f.client.tell(f.inference, parts[1]);
  f.run();
  CHECK(f.state().parts.bytes() == 64);
  f.kill(f.client);
  CHECK(f.state().parts.bytes() == 0);
  CHECK(f.state().clients.empty());
}

TEST_CASE("inference: a request in parts is answered") {
  Fixture f;
  for (const Part& part : split(serialize(*f.system, f.request(5, 1)), PartOf::request, 1, 64))
    f.client.tell(f.inference, part);
  f.run();
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  CHECK(f.client.heard->replies[0].id == 5);
  CHECK(f.state().parts.bytes() == 0);
}

TEST_CASE("inference: a batch does not wait for a client that sent Pause or was paused by its worker number") {
  Fixture f;
  f.serve();
  f.client.tell(f.inference, f.request(5, 1));
  f.other.tell(f.inference, f.request(9, 2));
  f.run();
  f.pass(10ms);
  REQUIRE(dynamic_cast<PolicyServer&>(*f.state().server).batcher().target() == 8);
  f.client.tell(f.inference, f.request(6, 1));
  f.run();
  CHECK(f.client.heard->replies.size() == 1);  // the batch waits for the other client
  f.other.tell(f.inference, Pause{2, 0});
  f.run();
  CHECK(f.client.heard->replies.size() == 2);
  f.other.tell(f.inference, f.request(10, 2));
  f.run();
  f.pass(10ms);
  f.client.tell(f.inference, f.request(7, 1));
  f.run();
  CHECK(f.client.heard->replies.size() == 2);
  f.peers.tell(f.inference, Pause{2, 0});
  f.run();
  CHECK(f.client.heard->replies.size() == 3);
}

TEST_CASE("inference: a client whose request takes long is told every 2 s that it is in progress") {
  SlowBatches f;
  for (int i = 0; i < 4; ++i) {
    CHECK(f.client.heard->replies.size() == f.before + static_cast<size_t>(i / 2));
    f.pass(1s);
  }
  REQUIRE(f.client.heard->replies.size() == f.before + 2);
  CHECK(f.client.heard->replies.back().in_progress());
  CHECK(f.client.heard->replies.back().id == 6);
  CHECK(f.state().pending.size() == 1);
  f.other.tell(f.inference, f.request(10, 2));
  f.run();
  CHECK_FALSE(f.client.heard->replies.back().in_progress());
  CHECK(f.client.heard->replies.back().id == 6);
  CHECK(f.state().pending.empty());
}

TEST_CASE("inference: a client that pauses, or is paused by its worker number, withdraws its request") {
  for (const bool itself : {true, false}) {
    CAPTURE(itself);
    SlowBatches f;
    (itself ? f.client : f.peers).tell(f.inference, Pause{1, 0});
    f.run();
    CHECK(f.state().pending.empty());
    CHECK(f.state().tickets.empty());
    CHECK(f.state().server->requests() == 0);
    f.other.tell(f.inference, f.request(10, 2));
    f.run();
    f.pass(40s);
    CHECK(f.client.heard->replies.size() == f.before);
    f.client.tell(f.inference, f.request(6, 1));  // it may ask again
    f.run();
    f.pass(40s);
    CHECK(f.client.heard->replies.back().id == 6);
  }
}

TEST_CASE("inference: the parts and later the entry of a silent client are freed without a report of its end") {
  Fixture f;
  f.serve();
  const std::vector<Part> parts = split(serialize(*f.system, f.request(5, 1)), PartOf::request, 1, 32);
  REQUIRE(parts.size() > 2);
  f.client.tell(f.inference, parts[0]);
  f.client.tell(f.inference, parts[1]);
  f.run();
  for (int i = 0; i < 9; ++i) f.pass(1s);
  CHECK(f.state().parts.bytes() == 64);
  for (int i = 0; i < 2; ++i) f.pass(1s);
  CHECK(f.state().parts.bytes() == 0);
  CHECK(f.state().clients.size() == 1);
  for (int i = 0; i < 50; ++i) f.pass(1s);
  CHECK(f.state().clients.empty());
}

TEST_CASE("inference: a batch does not wait for a client that was silent for 60 s, which may still ask again") {
  Fixture f;
  f.serve();
  f.client.tell(f.inference, f.request(5, 1));
  f.other.tell(f.inference, f.request(9, 2));
  f.run();
  for (int i = 0; i < 61; ++i) {
    f.pass(1s);
    f.other.tell(f.inference, f.request(10, 2));
    f.run();
  }
  CHECK(f.state().clients.size() == 1);
  const size_t before = f.other.heard->replies.size();
  f.other.tell(f.inference, f.request(11, 2));
  f.run();
  CHECK(f.other.heard->replies.size() > before);  // at once
  f.client.tell(f.inference, f.request(6, 1));
  f.run();
  f.pass(10ms);
  REQUIRE(f.client.heard->replies.size() == 2);
  CHECK(f.client.heard->replies[1].id == 6);
}

TEST_CASE("inference: a client that waits for the first weights is not removed as silent") {
  Fixture f;
  f.client.tell(f.inference, f.request(5, 1));
  f.run();
  for (int i = 0; i < 61; ++i) f.pass(1s);
  CHECK(f.state().clients.size() == 1);
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  CHECK(f.client.heard->replies[0].fault == Fault::none);
}

TEST_CASE("inference: each client gets its own recurrent state back from a common batch") {
  Fixture f({.state_size = 2, .sequence = 1, .burn_in = 0});
  const auto recurrent = [&](uint64_t id, uint64_t worker) {
    InferenceRequest request = f.request(id, worker);
    request.steps().state = Array(DType::f32, {1, 2});
    request.steps().starts = Array::of<uint8_t>({1}, {1});
    return request;
  };
  const InferenceRequest first = recurrent(5, 1), second = recurrent(9, 2);
  f.client.tell(f.inference, first);
  f.other.tell(f.inference, second);
  f.run();
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  REQUIRE(f.other.heard->replies.size() == 1);
  const auto observation = [](const InferenceRequest& request) {
    return static_cast<float>(request.steps().observations.at("id").view<int64_t>()[0]);
  };
  REQUIRE(f.client.heard->replies[0].steps().state.shape() == Shape{1, 2});
  CHECK(f.client.heard->replies[0].steps().state.view<float>()[0] == observation(first));
  CHECK(f.other.heard->replies[0].steps().state.view<float>()[0] == observation(second));
  CHECK(!f.world.violation);
}

TEST_CASE("inference: a request whose recurrent state does not match the model is refused") {
  for (const int64_t size : {0, 2}) {
    CAPTURE(size);
    Fixture f({.state_size = size, .sequence = size / 2, .burn_in = 0});
    InferenceRequest request = f.request(5, 1);
    request.steps().state = Array(DType::f32, {1, 1});
    request.steps().starts = Array::of<uint8_t>({1}, {1});
    f.client.tell(f.inference, request);
    f.run();
    f.serve();
    REQUIRE(f.client.heard->replies.size() == 1);
    CHECK(f.client.heard->replies[0].fault == Fault::bad_message);
    CHECK(f.client.heard->replies[0].error.find("recurrent state") != std::string::npos);
  }
}

TEST_CASE("inference: errors and unknown messages of a client are ignored") {
  Fixture f;
  f.client.tell(f.inference, caf::error(caf::sec::unexpected_message));
  f.client.tell(f.inference, std::string("nobody asked for this"));
  f.client.tell(f.inference, f.request(5, 1));
  f.run();
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  CHECK(f.client.heard->replies[0].fault == Fault::none);
}

TEST_CASE("inference: parts of another message and a damaged request are dropped, and a later request is answered") {
  Fixture f;
  std::vector<Part> parts = split(serialize(*f.system, f.request(5, 1)), PartOf::reply, 1, 64);
  for (const Part& part : parts) f.client.tell(f.inference, part);
  Part beginning = split(serialize(*f.system, f.request(5, 1)), PartOf::request, 1, 16)[0];
  beginning.count = 1;
  f.client.tell(f.inference, beginning);
  f.run();
  CHECK(f.state().parts.bytes() == 0);
  f.client.tell(f.inference, f.request(6, 1));
  f.run();
  f.serve();
  REQUIRE(f.client.heard->replies.size() == 1);
  CHECK(f.client.heard->replies[0].id == 6);
}
