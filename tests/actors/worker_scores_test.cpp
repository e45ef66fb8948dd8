// The worker of a token run and its grader.

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "actors/experience/common/sampler.h"
#include "actors/grader_actor.h"
#include "actors/worker.h"
#include "runtime/base/memory_disk.h"
#include "tests/actors/one_actor.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

// The prompts of another task; its answers cannot be checked.
class FailingTask final : public Task {
 public:
  explicit FailingTask(std::shared_ptr<const Task> like) : like_(std::move(like)) {}
  Prompt propose(Rng& rng) const override { return like_->propose(rng); }
  std::string alphabet() const override { return like_->alphabet(); }
  size_t max_prompt_length() const override { return like_->max_prompt_length(); }
  size_t max_answer_length() const override { return like_->max_answer_length(); }
  int checked() const { return checked_; }  // answers; one of each request

 private:
  bool is_right(const Prompt&, std::string_view) const override {
    ++checked_;
    throw std::runtime_error("no such table");
  }
  std::shared_ptr<const Task> like_;
  mutable int checked_ = 0;
};

struct Fixture : OneActor {
  explicit Fixture(bool deterministic = false, bool fails = false, uint32_t groups = 1)
      : OneActor(token_config(groups)) {
    auto tokens = std::make_shared<TokenRun>(*make_token_run(context->config));
    if (fails) tokens->task = failing = std::make_shared<FailingTask>(tokens->task);
    end_token = tokens->end_tokens.front();
    character = tokens->tokenizer->encode(tokens->task->alphabet()).front();
    context->tokens = tokens;
    context->deterministic = deterministic;
    worker = keep(system->spawn(
        worker_actor, RunContextPtr(context), uint64_t{1},
        WorkerPeers{inference.as<InferenceService>(), replay.as<ReplayService>(), stats.as<StatsService>()}));
    caf::actor_cast<caf::strong_actor_ptr>(worker)->get()->attach_functor(
        [end = reason](const caf::error& why) { *end = why; });
    run();
    replay.tell(worker, Credits{groups});
    run();
  }
  void answer() {
    tell_answers();
    run();
  }
  // To each group two answers of one character and the end token.
  void tell_answers() {
    const std::vector<uint64_t>& requests = inference.heard->requests;
    REQUIRE(!requests.empty());
    for (uint32_t group = 0; group < requests.size(); ++group) tell_answers(requests[group], group);
  }
  void tell_answers(uint64_t request, uint32_t group) {
    InferenceReply reply;
    reply.id = request;
    reply.group = group;
    reply.body = AnswerReply{.tokens = Array::of(std::vector<int32_t>{character, end_token, character, end_token}),
                             .offsets = Array::of(std::vector<int64_t>{0, 2, 4}),
                             .log_probs = Array::of(std::vector<float>(4, -0.5f)),
                             .version = Array::of(std::vector<int64_t>(4, 0)),
                             .finish = Array::of(std::vector<uint8_t>{0, 0})};
    inference.tell(worker, reply);
  }
  WorkerState& state() { return state_of<WorkerState>(worker); }

  Peer inference = add_peer(), replay = add_peer(), stats = add_peer();
  int32_t end_token = 0, character = 0;
  std::shared_ptr<FailingTask> failing;                                 // null unless it fails
  std::shared_ptr<caf::error> reason = std::make_shared<caf::error>();  // of its end
  WorkerActor worker;
};

}  // namespace

TEST_CASE("worker_scores: answers are scored by an actor of their own, in a deterministic run by the worker") {
  for (const bool deterministic : {false, true}) {
    CAPTURE(deterministic);
    Fixture f(deterministic);
    CHECK(f.state().graders.size() == (deterministic ? 0 : 1));
    CHECK(f.state().sampler->report().env_steps == 0);
    f.answer();
    CHECK(f.state().sampler->report().env_steps == 2);
    CHECK_FALSE(static_cast<bool>(*f.reason));
  }
}

TEST_CASE("worker_scores: a task that fails again and again ends the worker with the words of the task") {
  for (const bool deterministic : {false, true}) {
    CAPTURE(deterministic);
    MemoryDisk disk;
    Fixture f(deterministic, /*fails=*/true);
    open_log(disk.open_append("log"), {.to_stderr = false});
    f.answer();
    CHECK_FALSE(static_cast<bool>(*f.reason));
    CHECK(f.state().sampler->report().last_error == "scoring failed: no such table");
    for (int i = 0; i < 10; ++i) f.pass(1s);
    const std::string why =
        "scoring failed 10 times in a row on the answers to one prompt, the last time with: no such table";
    CHECK(fault_of(*f.reason) == Fault::score_failed);
    CHECK(describe(*f.reason) == why);
    REQUIRE(!f.replay.heard->failing.empty());
    CHECK(f.replay.heard->failing.back().error == why);
    CHECK(f.replay.heard->workers.back().last);
    const std::string log = disk.read("log");
    CHECK(log.find("warning worker 1: scoring failed: no such table; the worker asks again\n") != std::string::npos);
    CHECK(std::count(log.begin(), log.end(), '\n') == 1);  // not one for each failure
  }
}

TEST_CASE("worker_scores: the grader computes nothing more once its worker has ended") {
  Fixture f(/*deterministic=*/false, /*fails=*/true, /*groups=*/2);
  REQUIRE(f.inference.heard->requests.size() == 2);
  f.tell_answers();
  f.replay.tell(f.worker, Stop{"the run ends"});
  f.run();
  CHECK(f.failing->checked() <= 1);  // of two requests
}

TEST_CASE("worker_scores: a worker whose grader has ended ends too, and a grader ends with its worker") {
  Fixture f;
  const auto grader = caf::actor_cast<caf::strong_actor_ptr>(f.state().graders.at(0));
  SUBCASE("the grader has ended") {
    caf::anon_send_exit(f.state().graders.at(0), caf::exit_reason::user_shutdown);
    f.run();
    CHECK(describe(*f.reason).starts_with("its grader has ended: "));
  }
  SUBCASE("the worker has ended") {
    bool ended = false;
    grader->get()->attach_functor([&ended](const caf::error&) { ended = true; });
    f.replay.tell(f.worker, Stop{"the run ends"});
    f.run();
    CHECK(ended);
  }
}
