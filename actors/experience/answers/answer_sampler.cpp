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
      prompts_(static_cast<size_t>(config.workers.groups)) {}

void AnswerSampler::begin(uint32_t epoch) {
  epoch_ = epoch;
  for (uint32_t group = 0; group < groups(); ++group) wait_for_credit(group);
}

void AnswerSampler::start(uint32_t group) {
  const uint64_t key = derive_key(derive_key(config_.seed, "prompt", epoch_, worker_), "prompt", next_prompt_++);
  Rng rng(key);
  prompts_[group] = tokens_->task->draw(rng, Split::train);
  std::vector<int64_t> keys;
  for (int64_t a = 0; a < config_.generation.answers; ++a)
    keys.push_back(static_cast<int64_t>(derive_key(key, "answer", static_cast<uint64_t>(a))));
  ask(group, AnswerRequest{.prompt = Array::of(tokens_->encode(prompts_[group])), .keys = Array::of(keys)});
}

Misfit AnswerSampler::misfit(uint32_t /*group*/, const RequestBody& request, const InferenceReply& reply) const {
  const auto* answers = std::get_if<AnswerReply>(&reply.body);
  if (answers == nullptr) return "it holds no answers";
  return troupe::misfit(*tokens_, std::get<AnswerRequest>(request), *answers);
}

void AnswerSampler::take(uint32_t group, const RequestBody& request, const InferenceReply& reply) {
  const auto begun = WallClock::now();
  RolloutPtr rollout = score(group, std::get<AnswerRequest>(request).prompt, reply.version.epoch, reply.answers());
  busy_ += WallClock::now() - begun;
  port_.push(std::move(rollout));
  if (!start_with_credit(group)) wait_for_credit(group);
}

void AnswerSampler::on_wake(uint32_t group, uint32_t item) { TROUPE_CHECK(false, group, item); }

RolloutPtr AnswerSampler::score(uint32_t group, const Array& prompt, uint32_t epoch, const AnswerReply& reply) {
  const auto offsets = reply.offsets.view<int64_t>(), version = reply.version.view<int64_t>();
  const auto tokens = reply.tokens.view<int32_t>();
  const int64_t count = reply.offsets.size() - 1;
  auto rollout = std::make_shared<Rollout>();
  rollout->worker = worker_;
  rollout->group = group;
  rollout->sequence = sequence_++;
  rollout->epoch = epoch;
  rollout->oldest = static_cast<uint64_t>(std::ranges::min(version));
  rollout->newest = static_cast<uint64_t>(std::ranges::max(version));
  rollout->samples = rollout->env_steps = static_cast<uint64_t>(count);
  std::vector<float> rewards;
  std::vector<uint8_t> right;
  std::vector<int32_t> lengths;
  for (size_t a = 0; a < static_cast<size_t>(count); ++a) {
    const auto answer =
        tokens.subspan(static_cast<size_t>(offsets[a]), static_cast<size_t>(offsets[a + 1] - offsets[a]));
    const Score score = tokens_->task->score(prompts_[group], tokens_->decode(answer));
    rewards.push_back(static_cast<float>(score.reward));
    right.push_back(score.right ? 1 : 0);
    lengths.push_back(static_cast<int32_t>(answer.size()));
  }
  rollout->episodes = {Array::of(rewards), Array::of(lengths), Array::of(right)};
  rollout->body = Answers{.prompts = prompt,
                          .prompt_offsets = Array::of(std::vector<int64_t>{0, prompt.size()}),
                          .tokens = reply.tokens,
                          .offsets = reply.offsets,
                          .group = Array(DType::i32, {count}),
                          .log_probs = reply.log_probs,
                          .version = reply.version,
                          .rewards = rollout->episodes.returns,
                          .right = rollout->episodes.success,
                          .finish = reply.finish};
  report_.env_steps += static_cast<uint64_t>(count);
  return rollout;
}

std::vector<std::string> AnswerSampler::save_parts() const { return {to_bytes(next_prompt_)}; }

void AnswerSampler::load_parts(const std::vector<std::string>& parts) {
  TROUPE_CHECK(parts.size() == 1, parts.size());
  from_bytes(parts[0], "worker " + std::to_string(worker_), next_prompt_);
}

std::optional<std::string> AnswerSampler::failing() const {
  bool any = false;
  for (uint32_t group = 0; group < groups(); ++group) {
    if (!is_asking(group)) continue;
    if (!inference_fails(group)) return std::nullopt;
    any = true;
  }
  return any ? std::optional(report_.last_error) : std::nullopt;
}

}  // namespace troupe
