#pragma once
// A worker that reverses letters, with its sampler and its grader.

#include "actors/experience/answers/answer_sampler.h"
#include "actors/experience/answers/task_grader.h"
#include "tests/actors/experience/answers/answer_port.h"
#include "tests/support/temp_folder.h"
#include "tests/support/token_config.h"

namespace troupe::test {

template <class T>
Array array_of(const std::vector<T>& values) {
  return Array::of<T>({static_cast<int64_t>(values.size())}, std::span<const T>(values));
}

struct AnswerWorker {
  explicit AnswerWorker(int64_t answers = 2, const std::string& advantage = "grpo")
      : config(config_of(answers, advantage)) {}
  static RunConfig config_of(int64_t answers, const std::string& advantage) {
    RunConfig config = token_config(/*groups=*/3);
    config.generation.answers = answers;
    config.algorithm.advantage = advantage;
    return config;
  }
  RunConfig config;
  std::shared_ptr<const TokenRun> tokens = make_token_run(config);
  AnswerPort port;
  AnswerSampler core{config, tokens, 4, port};
  TaskGrader grader{tokens};

  ScoreReply scores(size_t request) { return score_reply(grader, port.to_score.at(request)); }
  ScoreReply failed_scores(size_t request) const {
    return {
        .id = port.to_score.at(request).id, .group = port.to_score.at(request).group, .scores = {}, .error = "planned"};
  }
  void answer_all() {
    const std::vector<InferenceRequest> asked = port.asked;
    for (const InferenceRequest& request : asked) core.on_reply(answer(request));
  }
  std::vector<uint32_t> groups_pushed() const {
    std::vector<uint32_t> groups;
    for (const RolloutPtr& rollout : port.pushed) groups.push_back(rollout->group);
    return groups;
  }

  // A right answer with its end token, and wrong ones of a single token.
  InferenceReply answer(const InferenceRequest& request) const {
    const auto prompt = request.answers().prompt.view<int32_t>();
    const std::string text = tokens->decode(prompt);
    std::vector<int32_t> ids = tokens->tokenizer->encode(std::string(text.rbegin() + 1, text.rend()));
    ids.push_back(tokens->end_tokens.front());
    std::vector<int64_t> offsets = {0, static_cast<int64_t>(ids.size())};
    for (int64_t a = 1; a < answers_asked(config); ++a) {
      ids.push_back(tokens->end_tokens.front());
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
    InferenceReply reply;
    reply.id = request.id;
    reply.group = request.group;
    reply.version = {2, 7};
    AnswerReply& body = reply.body.emplace<AnswerReply>();
    body.tokens = array_of(ids);
    body.offsets = array_of(offsets);
    body.log_probs = array_of(std::vector<float>(ids.size(), -0.5f));
    std::vector<int64_t> version(ids.size(), 7);
    version.front() = 6;
    body.version = array_of(version);
    body.finish = array_of(std::vector<uint8_t>(offsets.size() - 1, 0));
    return reply;
  }
};

}  // namespace troupe::test
