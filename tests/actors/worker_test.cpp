#include "actors/worker.h"

#include <unistd.h>

#include "actors/experience/grid/step_sampler.h"
#include "envs/batched.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/actors/one_actor.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

class Broken {
 public:
  struct State {
    int32_t steps = 0;
  };
  static EnvSpec spec() {
    EnvSpec spec;
    spec.id = "Broken";
    spec.observations = {{"o", DType::f32, {1}}};
    spec.action = {ActionKind::discrete, {2}, {}, {}, 1, false};
    return spec;
  }
  void reset(Rng&) {}
  RowStep step(int32_t, Rng&) { throw std::runtime_error("broken on purpose"); }
  void observe(RowWriter out) const { out.array<float>()[0] = 0; }

  State state;
};

RunConfig small_config() {
  RunConfig config;
  config.env.rows = 2;
  config.workers.groups = 1;
  config.rollout.length = 8;
  config.workers.quarantine_after = 3;
  return config;
}

struct Fixture : OneActor {
  Fixture() : OneActor(small_config()) {
    context->make_env = [](const EnvConfig& env) {
      return std::make_unique<Batched<Broken>>(Broken::spec(), env.rows);
    };
    worker = keep(system->spawn(
        worker_actor, RunContextPtr(context), uint64_t{1},
        WorkerPeers{inference.as<InferenceService>(), replay.as<ReplayService>(), stats.as<StatsService>()}));
    run();
    replay.tell(worker, Credits{1});
    run();
  }
  size_t requests() const { return inference.heard->requests.size(); }
  // A reply to the newest request.
  InferenceReply answer_to_newest() const {
    REQUIRE(!inference.heard->requests.empty());
    InferenceReply reply;
    reply.id = inference.heard->requests.back();
    reply.body = StepReply{.actions = Array(DType::i32, {2, 1, 1}),
                           .log_probs = Array(DType::f32, {2, 1}),
                           .values = Array(DType::f32, {2})};
    return reply;
  }
  void answer() {
    inference.tell(worker, answer_to_newest());
    run();
  }
  WorkerState& state() { return state_of<WorkerState>(worker); }
  std::vector<Part> parts_of_answer() { return split(serialize(*system, answer_to_newest()), PartOf::reply, 1, 32); }

  Peer inference = add_peer(), replay = add_peer(), stats = add_peer();
  WorkerActor worker;
};

}  // namespace

TEST_CASE("worker: while its environments fail it sends one report and one EnvironmentsFailing per beat") {
  Fixture f;
  f.answer();
  const size_t before = f.replay.heard->workers.size();
  CHECK(f.replay.heard->failing.empty());
  f.pass(1s);
  CHECK(f.replay.heard->failing.size() == 1);
  REQUIRE(f.replay.heard->workers.size() == before + 1);
  CHECK(f.stats.heard->workers.size() == before + 1);
  CHECK(!f.replay.heard->workers.back().last);
}

TEST_CASE("worker: it logs once that inference does not answer, and once that it answers again") {
  Fixture f;
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  const auto count = [&](const std::string& text) {
    const std::string log = disk.read("log");
    size_t times = 0;
    for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++times;
    return times;
  };
  for (int i = 0; i < 29; ++i) f.pass(1s);
  CHECK(count("no answer") == 0);
  for (int i = 0; i < 40; ++i) f.pass(1s);
  CHECK(count("no answer from the inference actor of this process for 30 s") == 1);
  CHECK(count("no answer") == 1);
  CHECK(count("answers again") == 0);
  f.answer();
  for (int i = 0; i < 2; ++i) f.pass(1s);
  CHECK(count("inference answers again") == 1);
}

TEST_CASE("worker: while inference says that a request is in progress, it is neither silent nor asked again") {
  Fixture f;
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  InferenceReply in_progress;
  in_progress.id = f.inference.heard->requests.back();
  for (int i = 0; i < 20; ++i) {
    for (int second = 0; second < 5; ++second) f.pass(1s);
    f.inference.tell(f.worker, in_progress);
    f.run();
  }
  CHECK(f.requests() == 1);
  CHECK(f.state().sampler->report().retries == 0);
  CHECK(disk.read("log").find("no answer") == std::string::npos);
  f.answer();
  CHECK(f.state().sampler->report().env_failures == 2);  // both rows were stepped
}

TEST_CASE("worker: a reply in parts is accepted from its inference actor only") {
  Fixture f;
  const std::vector<Part> parts = f.parts_of_answer();
  REQUIRE(parts.size() > 2);
  const Peer stranger = f.add_peer();
  for (const Part& part : parts) stranger.tell(f.worker, part);
  f.run();
  CHECK(f.state().parts.bytes() == 0);
  CHECK(f.state().sampler->report().env_failures == 0);
  for (const Part& part : parts) f.inference.tell(f.worker, part);
  f.run();
  CHECK(f.state().parts.bytes() == 0);
  CHECK(f.state().sampler->report().env_failures == 2);  // both rows were stepped
}

TEST_CASE("worker: the parts of an unfinished reply are freed by the next reply or the loss of the sender") {
  Fixture f;
  const std::vector<Part> parts = f.parts_of_answer();
  const auto send_half = [&](const Peer& from) {
    from.tell(f.worker, parts[0]);
    from.tell(f.worker, parts[1]);
    f.run();
  };
  send_half(f.inference);
  CHECK(f.state().parts.bytes() == 64);
  send_half(f.inference);
  CHECK(f.state().parts.bytes() == 64);
  const Peer next = f.add_peer();
  f.replay.tell(f.worker, InferenceReplaced{next.as<InferenceService>()});
  f.run();
  CHECK(f.state().parts.bytes() == 0);
  send_half(f.inference);
  CHECK(f.state().parts.bytes() == 0);
  send_half(next);
  CHECK(f.state().parts.bytes() == 64);
  f.kill(next);
  CHECK(f.state().parts.bytes() == 0);
}

TEST_CASE("worker: after a reply that does not fit its request the worker asks again and continues") {
  Fixture f;
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  InferenceReply wrong_type = f.answer_to_newest(), out_of_range = wrong_type;
  wrong_type.steps().values = Array(DType::i32, {2});
  out_of_range.steps().actions = Array::of<int32_t>({2, 1, 1}, {0, 2});
  InferenceReply of_answers = wrong_type;
  of_answers.body = AnswerReply{};
  for (InferenceReply reply : {wrong_type, out_of_range, of_answers}) {
    const size_t asked = f.requests();
    f.inference.tell(f.worker, reply);
    f.run();
    CHECK(f.state().sampler->report().env_failures == 0);
    f.pass(1s);
    CHECK(f.requests() > asked);
  }
  Part part = f.parts_of_answer()[0];
  part.count = 1;
  f.inference.tell(f.worker, part);  // a truncated reply
  f.run();
  CHECK(f.inference.heard->exits.empty());  // an inference actor of the same process is not ended
  f.answer();
  CHECK(f.state().sampler->report().env_failures == 2);
  close_log();
  CHECK(disk.read("log").find("worker 1: the inference actor of this process: a reply does not fit its request: "
                              "values is int32[2], expected float32[2]; the worker asks again") != std::string::npos);
}

TEST_CASE("worker: the first failure of an environment is logged at once with its cause, later ones once a minute") {
  Fixture f;
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  const auto lines = [&] {
    const std::string log = disk.read("log");
    size_t count = 0;
    for (size_t at = log.find("broken on purpose"); at != std::string::npos; at = log.find("broken", at + 1)) ++count;
    return count;
  };
  f.answer();
  CHECK(disk.read("log").ends_with("warning worker 1: an environment has failed: row 0: broken on purpose\n"));
  CHECK(lines() == 1);
  for (int i = 0; i < 59; ++i) f.pass(1s);
  f.answer();  // the rows are restarted
  f.answer();
  CHECK(f.state().sampler->report().env_failures == 4);
  CHECK(lines() == 1);
  f.pass(1s);
  CHECK(disk.read("log").find("4 environment failures so far; the last: row 0: broken on purpose\n") !=
        std::string::npos);
  CHECK(lines() == 2);
  close_log();
}

TEST_CASE("worker: an error that another actor sends is logged, and the worker continues") {
  Fixture f;
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  f.inference.tell(f.worker, caf::error(caf::sec::unexpected_message));
  f.run();
  close_log();
  CHECK(disk.read("log").find(" reports is ignored: ") != std::string::npos);
  f.answer();
  CHECK(f.state().sampler->report().env_failures == 2);
}

TEST_CASE("worker: an unknown message is logged and not answered, and the worker continues") {
  Fixture f;
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  size_t answers = 0;
  const auto sender = f.system->spawn([&answers](caf::event_based_actor* self) -> caf::behavior {
    self->set_error_handler([&answers](caf::error&) { ++answers; });
    return {[](Stop) {}};
  });
  caf::send_as(sender, caf::actor_cast<caf::actor>(f.worker), std::string("nobody asked for this"));
  f.run();
  caf::anon_send_exit(sender, caf::exit_reason::kill);
  f.run();
  close_log();
  CHECK(answers == 0);
  CHECK(disk.read("log").find("worker 1: a message from process " + std::to_string(getpid()) +
                              " is dropped: it is none that this actor knows") != std::string::npos);
  f.answer();
  CHECK(f.replay.heard->failing.empty());
}

TEST_CASE("worker: it asks again if a forward pass failed, and ends if its requests do not fit the run") {
  Fixture f;
  InferenceReply reply;
  reply.id = f.inference.heard->requests.back();
  reply.fault = Fault::forward_failed;
  reply.error = "out of memory";
  size_t asked = f.requests();
  f.inference.tell(f.worker, reply);
  f.run();
  f.pass(1s);
  REQUIRE(f.requests() > asked);
  CHECK_FALSE(f.replay.heard->workers.back().last);

  asked = f.requests();
  reply.fault = Fault::bad_message;
  reply.error = "observation position is missing";
  caf::error reason;
  caf::actor_cast<caf::strong_actor_ptr>(f.worker)->get()->attach_functor([&](const caf::error& why) { reason = why; });
  f.inference.tell(f.worker, reply);  // the request may have been damaged on its way
  f.run();
  f.pass(1s);
  REQUIRE(f.requests() > asked);
  CHECK_FALSE(f.replay.heard->workers.back().last);

  asked = f.requests();
  f.inference.tell(f.worker, reply);
  f.run();
  CHECK(f.replay.heard->workers.back().last);
  CHECK(f.replay.heard->workers.back().env_failures == 0);
  CHECK(fault_of(reason) == Fault::incompatible);
  CHECK(describe(reason) ==
        "inference refuses its requests: observation position is missing (are the environment and the task "
        "the same as in the run's program?)");
}

TEST_CASE("worker: if inference keeps failing on a request, the worker reports that and then ends with the error") {
  Fixture f;
  caf::error reason;
  caf::actor_cast<caf::strong_actor_ptr>(f.worker)->get()->attach_functor([&](const caf::error& why) { reason = why; });
  InferenceReply reply;
  reply.id = f.inference.heard->requests.back();
  reply.fault = Fault::forward_failed;
  reply.error = "value of row 0 is not finite";
  for (uint32_t i = 1; i < RequestRetry::kMostFailures; ++i) {
    const size_t asked = f.requests();
    f.inference.tell(f.worker, reply);
    f.run();
    f.pass(1s);
    REQUIRE(f.requests() > asked);
    CHECK(f.replay.heard->failing.empty() == (i < RequestRetry::kFailing));
  }
  CHECK(f.replay.heard->failing.back().error == "inference failed: value of row 0 is not finite");
  CHECK(!reason);
  f.inference.tell(f.worker, reply);
  f.run();
  const std::string why =
      "inference failed 100 times in a row on the same request, the last time with: value of row 0 is not finite";
  CHECK(fault_of(reason) == Fault::forward_failed);
  CHECK(describe(reason) == why);
  CHECK(f.replay.heard->failing.back().error == why);
  CHECK(f.replay.heard->workers.back().last);
  CHECK(f.replay.heard->workers.back().env_failures == 0);
}

TEST_CASE("worker: its final report is marked as the last, after Stop and after an error") {
  SUBCASE("after Stop") {
    Fixture f;
    f.replay.tell(f.worker, Stop{"the run ends"});
    f.run();
    REQUIRE(!f.replay.heard->workers.empty());
    CHECK(f.replay.heard->workers.back().last);
  }
  SUBCASE("after an error") {
    Fixture f;
    for (int i = 0; i < 5; ++i) {  // steps that fail and steps that restart the rows, in turn
      f.answer();
      f.pass(10s);
    }
    REQUIRE(!f.replay.heard->workers.empty());
    CHECK(f.replay.heard->workers.back().last);
    const std::string& error = f.replay.heard->workers.back().last_error;
    CHECK(error.find("every sub-environment of a group failed 3 times in a row") != std::string::npos);
    CHECK(error.find("broken on purpose") != std::string::npos);
  }
}
