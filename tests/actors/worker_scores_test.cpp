// The worker of a token run and its scorer.

#include <stdexcept>
#include <string>
#include <utility>

#include "actors/experience/common/sampler.h"
#include "actors/scorer_actor.h"
#include "actors/worker.h"
#include "tests/actors/one_actor.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

RunConfig token_config() {
  RunConfig config;
  config.model.kind = "decoder";
  config.task.params = R"({"digits": 3})";
  config.generation.answers = 2;
  config.workers.groups = 1;
  return config;
}

// The prompts of another task; its answers cannot be checked.
class FailingTask final : public Task {
 public:
  explicit FailingTask(std::shared_ptr<const Task> like) : like_(std::move(like)) {}
  Prompt propose(Rng& rng) const override { return like_->propose(rng); }
  std::string alphabet() const override { return like_->alphabet(); }
  size_t max_prompt_length() const override { return like_->max_prompt_length(); }
  size_t max_answer_length() const override { return like_->max_answer_length(); }

 private:
  bool is_right(const Prompt&, std::string_view) const override { throw std::runtime_error("no such table"); }
  std::shared_ptr<const Task> like_;
};

struct Fixture : OneActor {
  explicit Fixture(bool deterministic = false, bool fails = false) : OneActor(token_config()) {
    auto tokens = std::make_shared<TokenRun>(*make_token_run(context->config));
    if (fails) tokens->task = std::make_shared<FailingTask>(tokens->task);
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
    replay.tell(worker, Credits{1});
    run();
  }
  // Two answers of one character and the end token each.
  void answer() {
    REQUIRE(!inference.heard->requests.empty());
    InferenceReply reply;
    reply.id = inference.heard->requests.back();
    reply.body = AnswerReply{.tokens = Array::of(std::vector<int32_t>{character, end_token, character, end_token}),
                             .offsets = Array::of(std::vector<int64_t>{0, 2, 4}),
                             .log_probs = Array::of(std::vector<float>(4, -0.5f)),
                             .version = Array::of(std::vector<int64_t>(4, 0)),
                             .finish = Array::of(std::vector<uint8_t>{0, 0})};
    inference.tell(worker, reply);
    run();
  }
  WorkerState& state() { return state_of<WorkerState>(worker); }

  Peer inference = add_peer(), replay = add_peer(), stats = add_peer();
  int32_t end_token = 0, character = 0;
  std::shared_ptr<caf::error> reason = std::make_shared<caf::error>();  // of its end
  WorkerActor worker;
};

}  // namespace

TEST_CASE("worker_scores: answers are scored by an actor of their own, in a deterministic run by the worker") {
  for (const bool deterministic : {false, true}) {
    CAPTURE(deterministic);
    Fixture f(deterministic);
    CHECK(static_cast<bool>(f.state().scorer) == !deterministic);
    CHECK(f.state().sampler->report().env_steps == 0);
    f.answer();
    CHECK(f.state().sampler->report().env_steps == 2);
    CHECK_FALSE(static_cast<bool>(*f.reason));
  }
}

TEST_CASE("worker_scores: a task that fails again and again ends the worker with the words of the task") {
  for (const bool deterministic : {false, true}) {
    CAPTURE(deterministic);
    Fixture f(deterministic, /*fails=*/true);
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
  }
}

TEST_CASE("worker_scores: a worker whose scorer has ended ends too, and a scorer ends with its worker") {
  Fixture f;
  const auto scorer = caf::actor_cast<caf::strong_actor_ptr>(f.state().scorer);
  SUBCASE("the scorer has ended") {
    caf::anon_send_exit(f.state().scorer, caf::exit_reason::user_shutdown);
    f.run();
    CHECK(describe(*f.reason).starts_with("its scorer has ended: "));
  }
  SUBCASE("the worker has ended") {
    bool ended = false;
    scorer->get()->attach_functor([&ended](const caf::error&) { ended = true; });
    f.replay.tell(f.worker, Stop{"the run ends"});
    f.run();
    CHECK(ended);
  }
}
