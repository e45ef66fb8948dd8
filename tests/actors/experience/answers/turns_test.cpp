// Answers of several turns, in the sampler and the checks.

#include <algorithm>
#include <numeric>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/answer_sampler.h"
#include "actors/experience/answers/task_grader.h"
#include "runtime/base/errors.h"
#include "tests/actors/experience/answers/answer_port.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;

namespace {

RunConfig config_of(int64_t turns, const std::string& advantage = "grpo") {
  RunConfig config = token_config();
  config.task.name = "countdown";
  config.task.params = R"({"numbers": 2, "max_number": 30, "max_target": 99})";
  config.task.turns = turns;
  config.generation.answers = 2;
  config.algorithm.advantage = advantage;
  return config;
}

struct Worker {
  explicit Worker(int64_t turns = 3, const std::string& advantage = "grpo") : config(config_of(turns, advantage)) {
    core.begin(2);
    core.add_credits(1);
  }
  RunConfig config;
  std::shared_ptr<const TokenRun> tokens = make_token_run(config);
  AnswerPort port;
  AnswerSampler core{config, tokens, 4, port};
  TaskGrader grader{tokens};

  const AnswerRequest& asked(size_t i) const { return port.asked.at(i).answers(); }
  std::vector<int32_t> ids(const std::string& text) const {
    std::vector<int32_t> result = tokens->tokenizer->encode(text);
    result.push_back(tokens->end_tokens.front());
    return result;
  }
  // Replies to the last request with these texts. The version of a token is `version`.
  void answer(const std::vector<std::string>& texts, int64_t version = 7, uint32_t epoch = 2) {
    std::vector<GeneratedAnswer> answers;
    for (const std::string& text : texts) {
      GeneratedAnswer& each = answers.emplace_back();
      each.tokens = ids(text);
      each.log_probs.assign(each.tokens.size(), -0.5f);
      each.version.assign(each.tokens.size(), static_cast<uint64_t>(version));
    }
    InferenceReply reply;
    reply.id = port.asked.back().id;
    reply.group = port.asked.back().group;
    reply.version = {epoch, 7};
    reply.body = packed(answers);
    REQUIRE_FALSE(core.on_reply(reply).has_value());
  }
  void score_last() { core.on_scores(score_reply(grader, port.to_score.back())); }
  // What follows the prompt in the last request for answer i.
  std::vector<int32_t> history(size_t i) const {
    const AnswerRequest& request = port.asked.back().answers();
    const auto offsets = request.history_offsets.view<int64_t>();
    const auto all = request.history.view<int32_t>();
    return {all.begin() + offsets[i], all.begin() + offsets[i + 1]};
  }
  // Two numbers of the prompt.
  std::pair<std::string, std::string> numbers() const {
    const std::string prompt = tokens->decode(asked(0).prompt.view<int32_t>());
    const size_t comma = prompt.find(','), equals = prompt.find('=');
    return {prompt.substr(0, comma), prompt.substr(comma + 1, equals - comma - 1)};
  }
  std::string right() const { return port.to_score.at(0).prompt.demonstration; }
};

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("answer_sampler: a message of the task asks for the next turn, of the answers that have one") {
  Worker worker;
  CHECK_FALSE(worker.asked(0).continues());
  worker.answer({"1+", "7"});
  REQUIRE(worker.port.to_score.size() == 1);
  CHECK(worker.port.to_score[0].kind == ScoreKind::replies);
  ScoreReply said = score_reply(worker.grader, worker.port.to_score[0]);
  said.replies[0].message.reset();  // the first answer is the last one of its conversation
  worker.core.on_scores(said);
  REQUIRE(worker.port.asked.size() == 2);
  CHECK(worker.asked(1).prompt == worker.asked(0).prompt);
  REQUIRE(worker.asked(1).keys.size() == 1);
  CHECK(worker.asked(1).keys.view<int64_t>()[0] ==
        static_cast<int64_t>(turn_key(static_cast<uint64_t>(worker.asked(0).keys.view<int64_t>()[1]), 1)));
  CHECK(worker.history(0) == joined(worker.ids("7"), worker.tokens->tokenizer->encode(*said.replies[1].message)));
  CHECK_FALSE(misfit(worker.config, *worker.tokens, worker.asked(1)).has_value());
}

TEST_CASE("answer_sampler: a rollout has the tokens of all turns, and their messages beside them") {
  Worker worker;
  const auto [a, b] = worker.numbers();
  worker.answer({"", a + "+" + b}, 5);
  ScoreReply said = score_reply(worker.grader, worker.port.to_score.back());
  said.replies[1].message = "=1:";
  worker.core.on_scores(said);
  worker.answer({worker.right(), "2"}, 6);
  said = score_reply(worker.grader, worker.port.to_score.back());
  CHECK_FALSE(said.replies[0].message.has_value());
  said.replies[1].message = "=22:";
  worker.core.on_scores(said);
  REQUIRE(worker.asked(2).keys.size() == 1);
  worker.answer({worker.right()}, 7);
  // The last turn is not replied to.
  CHECK(worker.port.to_score.back().kind == ScoreKind::scores);
  CHECK(worker.port.to_score.back().answers == std::vector<std::string>{worker.right(), worker.right()});
  CHECK(worker.port.to_score.back().details[1].earlier.size() == 2);
  CHECK(worker.port.to_score.back().details[1].earlier[1].message == "=22:");
  worker.score_last();
  REQUIRE(worker.port.pushed.size() == 1);
  const Rollout& rollout = *worker.port.pushed[0];
  const RunSpec run{.config = worker.config, .tokens = worker.tokens};
  CHECK_FALSE(answers_misfit(run, rollout).has_value());
  const Answers& answers = rollout.answers();
  const std::vector<int32_t> right = worker.ids(worker.right());
  const std::vector<int32_t> second = joined(joined(worker.ids(a + "+" + b), worker.ids("2")), right);
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  const auto tokens = answers.sampled.tokens.view<int32_t>();
  CHECK(std::ranges::equal(tokens.subspan(static_cast<size_t>(offsets[1])), second));
  CHECK(std::ranges::equal(answers.messages.ids.view<int32_t>().last(7),
                           joined(worker.tokens->tokenizer->encode("=1:"), worker.tokens->tokenizer->encode("=22:"))));
  const auto lengths = answers.messages.lengths.view<int32_t>();
  CHECK(lengths.size() == tokens.size());
  const size_t first = static_cast<size_t>(offsets[1]) + worker.ids(a + "+" + b).size();
  CHECK(lengths[first] == 3);
  CHECK(lengths[first + 2] == 4);
  CHECK(std::accumulate(lengths.begin() + offsets[1], lengths.end(), 0) == 7);
  CHECK(rollout.oldest == 5);
  CHECK(rollout.newest == 7);
  CHECK(rollout.episodes.lengths.view<int32_t>()[1] == static_cast<int32_t>(second.size()));
}

TEST_CASE("answer_sampler: an answer that has no score takes its messages with it") {
  Worker worker(2, "reinforce_plus_plus");
  worker.answer({"3", "4"});
  worker.score_last();
  worker.answer({"5", "6"});
  ScoreReply scores = score_reply(worker.grader, worker.port.to_score.back());
  scores.scores[0].scored = Scored::none;
  worker.core.on_scores(scores);
  REQUIRE(worker.port.pushed.size() == 1);
  const Rollout& rollout = *worker.port.pushed[0];
  CHECK_FALSE(answers_misfit({.config = worker.config, .tokens = worker.tokens}, rollout).has_value());
  CHECK(rollout.samples == 1);
  CHECK(rollout.answers().messages.lengths.size() == rollout.answers().sampled.tokens.size());
}

TEST_CASE("answer_sampler: when the epoch changes between two turns, the group begins anew") {
  Worker worker;
  worker.answer({"3", "4"});
  worker.score_last();
  CHECK(worker.asked(1).continues());
  worker.answer({"5", "6"}, 0, 3);
  REQUIRE(worker.port.asked.size() == 3);
  CHECK_FALSE(worker.asked(2).continues());
  CHECK(worker.asked(2).keys == worker.asked(0).keys);
  CHECK(worker.asked(2).prompt == worker.asked(0).prompt);
}

TEST_CASE("answer_sampler: an answer on which the task fails has no score, with the problem") {
  Worker worker(2, "reinforce_plus_plus");
  worker.answer({"3", "4"});
  ScoreReply said = score_reply(worker.grader, worker.port.to_score.back());
  said.replies[0] = {.problem = "planned"};
  said.replies[1].message = "no character of the alphabet";
  worker.core.on_scores(said);
  worker.score_last();
  REQUIRE(worker.port.pushed.size() == 1);
  CHECK(worker.port.pushed[0]->verifier_failed == 2);
  CHECK(worker.port.pushed[0]->samples == 0);
}

TEST_CASE("answer_sampler: rewards of turns come with the last tokens of these, and must be as many") {
  Worker worker(3, "reinforce_plus_plus");
  worker.answer({"3", "41"});
  worker.score_last();
  worker.answer({"5", "6"});
  ScoreReply said = score_reply(worker.grader, worker.port.to_score.back());
  said.replies[0].message.reset();
  worker.core.on_scores(said);
  worker.answer({"7"});
  ScoreReply scores = score_reply(worker.grader, worker.port.to_score.back());
  scores.scores[0].turns = {0.25};
  scores.scores[1].turns = {0.5, -0.5};
  worker.core.on_scores(scores);
  REQUIRE(worker.port.pushed.size() == 1);
  CHECK_FALSE(answers_misfit({.config = worker.config, .tokens = worker.tokens}, *worker.port.pushed[0]).has_value());
  // "3" and "5" with their end tokens, then "41", "6" and "7" with theirs.
  CHECK(worker.port.pushed[0]->answers().turn_rewards ==
        Array::of<float>({11}, {0, 0.25, 0, 0, 0, 0, 0.5, 0, -0.5, 0, 0}));
  Worker other(2, "reinforce_plus_plus");
  other.answer({"3", "4"});
  other.score_last();
  other.answer({"5", "6"});
  scores = score_reply(other.grader, other.port.to_score.back());
  scores.scores[0].turns = {0.25, 1};
  other.core.on_scores(scores);
  REQUIRE(other.port.pushed.size() == 1);
  CHECK(other.port.pushed[0]->verifier_failed == 1);
  CHECK(other.port.pushed[0]->samples == 1);
}

TEST_CASE("answer_sampler: a request for messages that fails is made again") {
  Worker worker;
  worker.answer({"3", "4"});
  ScoreReply failed{.id = worker.port.to_score[0].id, .error = "planned", .kind = ScoreKind::replies};
  worker.core.on_scores(failed);
  REQUIRE(worker.port.retries == std::vector<uint32_t>{0});
  CHECK(worker.port.asked.size() == 1);
  worker.core.wake(0, 0);
  REQUIRE(worker.port.to_score.size() == 2);
  worker.score_last();
  CHECK(worker.port.asked.size() == 2);
}

TEST_CASE("answer_sampler: the greedy answer of ReMax has its turns too, and stays the last one") {
  Worker worker(3, "remax");
  CHECK(worker.asked(0).greedy == Array::of<uint8_t>({3}, {0, 0, 1}));
  worker.answer({"3", "4", "5"});
  ScoreReply said = score_reply(worker.grader, worker.port.to_score.back());
  said.replies[0].message.reset();
  worker.core.on_scores(said);
  CHECK(worker.asked(1).greedy == Array::of<uint8_t>({2}, {0, 1}));
  CHECK_FALSE(misfit(worker.config, *worker.tokens, worker.asked(1)).has_value());
  worker.answer({"6", "7"});
  said = score_reply(worker.grader, worker.port.to_score.back());
  said.replies[1].message.reset();
  worker.core.on_scores(said);
  CHECK(worker.asked(2).greedy == Array::of<uint8_t>({1}, {0}));
}

TEST_CASE("answer_checks: messages that do not fit their answers are refused") {
  Worker worker(2);
  worker.answer({"3", "4"});
  worker.score_last();
  worker.answer({"5", "6"});
  worker.score_last();
  REQUIRE(worker.port.pushed.size() == 1);
  const RunSpec run{.config = worker.config, .tokens = worker.tokens};
  const auto problem = [&](const std::function<void(MessageTokens&)>& change) {
    Rollout rollout = *worker.port.pushed[0];
    MessageTokens& messages = std::get<Answers>(rollout.body).messages;
    messages.lengths = messages.lengths.clone();
    change(messages);
    return answers_misfit(run, rollout).value_or("none");
  };
  CHECK(problem([](MessageTokens&) {}) == "none");
  const int64_t count = worker.port.pushed[0]->answers().messages.ids.size();
  CHECK(problem([](MessageTokens& m) { m.ids = m.ids.slice(1, m.ids.size()); }) ==
        std::to_string(count - 1) + " tokens of messages, expected " + std::to_string(count));
  CHECK(problem([](MessageTokens& m) { m.lengths.mutable_view<int32_t>()[0] = 1; }) ==
        "a message of 1 tokens comes before token 0");
  CHECK(problem([](MessageTokens& m) { m.lengths.mutable_view<int32_t>()[1] = 1; }) ==
        std::to_string(count) + " tokens of messages, expected " + std::to_string(count + 1));
  CHECK(problem([](MessageTokens& m) {
          m.lengths.mutable_view<int32_t>()[1] = 8;
        }).starts_with("an answer has messages"));
  CHECK(problem([](MessageTokens& m) { m.lengths.mutable_view<int32_t>()[2] = -1; }) ==
        "a message of -1 tokens comes before token 2");
  CHECK(problem([](MessageTokens& m) { m.lengths = Array(DType::i32, {0}); }).starts_with("message_lengths"));
  const auto of_request = [&](const std::function<void(AnswerRequest&)>& change) {
    AnswerRequest request = worker.asked(1);
    change(request);
    return misfit(worker.config, *worker.tokens, request).value_or("none");
  };
  CHECK(of_request([](AnswerRequest&) {}) == "none");
  CHECK(of_request([](AnswerRequest& r) { r.history_offsets = Array(DType::i64, {0}); }) == "a history has no offsets");
  CHECK(of_request([](AnswerRequest& r) { r.history = Array::of<int32_t>({2}, {-1, 2}); }) != "none");
  CHECK(of_request([](AnswerRequest& r) { r.greedy = Array::of<uint8_t>({2}, {0, 1}); }) ==
        "answer 1 is to be the most likely one");
}
