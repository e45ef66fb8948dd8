#pragma once
// AnswerPort: keeps what an AnswerSampler asks for and pushes.

#include <chrono>
#include <utility>
#include <vector>

#include "actors/experience/answers/answer_sampler.h"

namespace troupe::test {

struct AnswerPort final : SamplerPort {
  std::vector<InferenceRequest> asked, to_scorers;
  std::vector<RolloutPtr> pushed;
  std::vector<ScoreRequest> to_score;
  std::vector<uint32_t> retries;
  std::chrono::steady_clock::time_point time;
  void ask(InferenceRequest request) override {
    (role_of(request.body) == Role::sampling ? asked : to_scorers).push_back(std::move(request));
  }
  void push(RolloutPtr rollout) override { pushed.push_back(std::move(rollout)); }
  void score(ScoreRequest request) override { to_score.push_back(std::move(request)); }
  void pause(uint32_t) override {}
  void wake_later(uint32_t group, uint32_t, std::chrono::milliseconds) override { retries.push_back(group); }
  std::chrono::steady_clock::time_point now() const override { return time; }
};

}  // namespace troupe::test
