#include "actors/experience/answers/answer_sampler.h"

#include <algorithm>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/common/state_bytes.h"
#include "runtime/base/rng.h"

namespace troupe {

AnswerSampler::AnswerSampler(const RunConfig& config, std::shared_ptr<const TokenRun> tokens, uint64_t worker,
                             SamplerPort& port)
    : Sampler(worker, config.workers.groups, port),
      config_(config),
      tokens_(std::move(tokens)),
      groups_(static_cast<size_t>(config.workers.groups)) {}

void AnswerSampler::begin(uint32_t epoch) {
  epoch_ = epoch;
  for (uint32_t group = 0; group < groups(); ++group) wait_for_credit(group);
}

void AnswerSampler::start(uint32_t group) {
  const uint64_t key = derive_key(derive_key(config_.seed, "prompt", epoch_, worker_), "prompt", next_prompt_++);
  Rng rng(key);
  Group& started = groups_[group];
  started.stage = Stage::asking;
  started.prompt = tokens_->task->draw(rng, Split::train);
  std::vector<int64_t> keys;
  for (int64_t a = 0; a < config_.generation.answers; ++a)
    keys.push_back(static_cast<int64_t>(derive_key(key, "answer", static_cast<uint64_t>(a))));
  ask(group, AnswerRequest{.prompt = Array::of(tokens_->encode(started.prompt)), .keys = Array::of(keys)});
}

Misfit AnswerSampler::misfit(uint32_t /*group*/, const RequestBody& request, const InferenceReply& reply) const {
  const auto* answers = std::get_if<AnswerReply>(&reply.body);
  if (answers == nullptr) return "it holds no answers";
  return troupe::misfit(*tokens_, std::get<AnswerRequest>(request), *answers);
}

void AnswerSampler::take(uint32_t group, const RequestBody& request, const InferenceReply& reply) {
  Group& answered = groups_[group];
  answered.stage = Stage::scoring;
  answered.prompt_ids = std::get<AnswerRequest>(request).prompt;
  answered.epoch = reply.version.epoch;
  answered.answers = reply.answers();
  answered.score_id = scores_.add(group);
  ask_for_scores(group);
}

void AnswerSampler::ask_for_scores(uint32_t group) {
  const Group& answered = groups_[group];
  ScoreRequest request{.id = answered.score_id, .group = group, .prompt = answered.prompt, .answers = {}};
  const auto tokens = answered.answers.tokens.view<int32_t>();
  const auto offsets = answered.answers.offsets.view<int64_t>();
  for (size_t a = 0; a + 1 < offsets.size(); ++a)
    request.answers.push_back(tokens_->decode(
        tokens.subspan(static_cast<size_t>(offsets[a]), static_cast<size_t>(offsets[a + 1] - offsets[a]))));
  port_.score(std::move(request));
}

void AnswerSampler::on_wake(uint32_t group, uint32_t /*item*/) {
  if (groups_[group].stage == Stage::scoring && scores_.ask_again(groups_[group].score_id)) ask_for_scores(group);
}

void AnswerSampler::on_scores(const ScoreReply& reply) {
  if (!scores_.awaits(reply)) return;
  busy_ += reply.spent;
  if (!reply.error.empty()) {
    report_.last_error = "scoring failed: " + reply.error;
    return port_.wake_later(reply.group, 0, scores_.failed(reply.id, reply.error));
  }
  scores_.put(reply.id, reply.scores);
  while (const auto scored = scores_.next()) push(*scored);
}

void AnswerSampler::push(const ScoreOrder::Scored& scored) {
  const uint32_t group = scored.group;
  port_.push(rollout_of(scored));
  groups_[group].stage = Stage::idle;
  if (!start_with_credit(group)) wait_for_credit(group);
}

RolloutPtr AnswerSampler::rollout_of(const ScoreOrder::Scored& scored) {
  const Group& answered = groups_[scored.group];
  const AnswerReply& answers = answered.answers;
  const auto offsets = answers.offsets.view<int64_t>(), version = answers.version.view<int64_t>();
  const int64_t count = answers.offsets.size() - 1;
  TROUPE_CHECK(static_cast<int64_t>(scored.scores.size()) == count, scored.scores.size(), count);
  auto rollout = std::make_shared<Rollout>();
  rollout->worker = worker_;
  rollout->group = scored.group;
  rollout->sequence = sequence_++;
  rollout->epoch = answered.epoch;
  rollout->oldest = static_cast<uint64_t>(std::ranges::min(version));
  rollout->newest = static_cast<uint64_t>(std::ranges::max(version));
  rollout->samples = rollout->env_steps = static_cast<uint64_t>(count);
  std::vector<float> rewards;
  std::vector<uint8_t> right;
  std::vector<int32_t> lengths;
  for (size_t a = 0; a < scored.scores.size(); ++a) {
    const Score& score = scored.scores[a];
    rewards.push_back(static_cast<float>(score.reward));
    right.push_back(score.right ? 1 : 0);
    lengths.push_back(static_cast<int32_t>(offsets[a + 1] - offsets[a]));
  }
  rollout->episodes = {Array::of(rewards), Array::of(lengths), Array::of(right)};
  rollout->body = Answers{.prompts = answered.prompt_ids,
                          .prompt_offsets = Array::of(std::vector<int64_t>{0, answered.prompt_ids.size()}),
                          .tokens = answers.tokens,
                          .offsets = answers.offsets,
                          .group = Array(DType::i32, {count}),
                          .log_probs = answers.log_probs,
                          .version = answers.version,
                          .rewards = rollout->episodes.returns,
                          .right = rollout->episodes.success,
                          .finish = answers.finish};
  report_.env_steps += static_cast<uint64_t>(count);
  return rollout;
}

std::vector<std::string> AnswerSampler::save_parts() const {
  TROUPE_CHECK(scores_.empty(), scores_.outstanding());
  return {to_bytes(next_prompt_)};
}

void AnswerSampler::load_parts(const std::vector<std::string>& parts) {
  TROUPE_CHECK(parts.size() == 1, parts.size());
  from_bytes(parts[0], "worker " + std::to_string(worker_), next_prompt_);
}

std::optional<std::string> AnswerSampler::failing() const {
  bool any = false;
  for (uint32_t group = 0; group < groups(); ++group) {
    const Stage stage = groups_[group].stage;
    if (stage == Stage::idle) continue;
    if (stage == Stage::scoring || !inference_fails(group)) return std::nullopt;
    any = true;
  }
  return any ? std::optional(report_.last_error) : std::nullopt;
}

}  // namespace troupe
