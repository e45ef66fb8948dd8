#include "actors/answer_core.h"

#include <algorithm>

#include "actors/experience/answers/answer_checks.h"
#include "actors/state_bytes.h"
#include "runtime/base/rng.h"

namespace troupe {

AnswerCore::AnswerCore(const RunConfig& config, std::shared_ptr<const TokenRun> tokens, uint64_t worker,
                       AnswerPort& port)
    : config_(config), tokens_(std::move(tokens)), worker_(worker), port_(port) {
  report_.worker = worker;
  groups_.resize(static_cast<size_t>(config.workers.groups));
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].id = static_cast<uint32_t>(g);
}

void AnswerCore::add_credits(uint32_t count, uint32_t epoch) {
  epoch_ = epoch;
  credits_ += count;
  for (Group& group : groups_)
    if (credits_ > 0 && !group.waits) start(group);
}

void AnswerCore::start(Group& group) {
  --credits_;
  const uint64_t key = derive_key(derive_key(config_.seed, "prompt", epoch_, worker_), "prompt", next_prompt_++);
  Rng rng(key);
  group.prompt = tokens_->task->draw(rng, Split::train);
  std::vector<int64_t> keys;
  for (int64_t a = 0; a < config_.generation.answers; ++a)
    keys.push_back(static_cast<int64_t>(derive_key(key, "answer", static_cast<uint64_t>(a))));
  group.request = {.id = next_request_++,
                   .worker = worker_,
                   .group = group.id,
                   .body = AnswerRequest{.prompt = Array::of(tokens_->encode(group.prompt)), .keys = Array::of(keys)}};
  group.waits = true;
  send(group);
}

void AnswerCore::send(Group& group) {
  group.retry.asked();
  ++report_.requests;
  port_.ask(group.request);
}

bool AnswerCore::awaits(const InferenceReply& reply) const {
  return reply.group < groups_.size() && groups_[reply.group].waits && groups_[reply.group].request.id == reply.id;
}

void AnswerCore::fail(Group& group, Fault fault, const std::string& error) {
  report_.last_error = (fault == Fault::forward_failed ? "inference failed: " : "") + error;
  port_.retry_later(group.id, group.retry.failed(fault, error));
}

std::optional<std::string> AnswerCore::on_reply(const InferenceReply& reply) {
  if (!awaits(reply)) return std::nullopt;  // the reply to a request that has been answered
  Group& group = groups_[reply.group];
  if (reply.fault != Fault::none) {
    fail(group, reply.fault, reply.error);
    return std::nullopt;
  }
  const auto* answers = std::get_if<AnswerReply>(&reply.body);
  auto why = answers == nullptr ? "it holds no answers" : misfit(*tokens_, group.request.answers(), *answers);
  if (why) {
    fail(group, Fault::forward_failed, "the reply does not fit the request: " + *why);
    return why;
  }
  group.waits = false;
  group.retry.answered();
  port_.push(score(group, reply.version.epoch, *answers));
  if (credits_ > 0) start(group);
  return std::nullopt;
}

RolloutPtr AnswerCore::score(const Group& group, uint32_t epoch, const AnswerReply& reply) {
  const auto offsets = reply.offsets.view<int64_t>(), version = reply.version.view<int64_t>();
  const auto tokens = reply.tokens.view<int32_t>();
  const int64_t count = reply.offsets.size() - 1;
  const Array& prompt = group.request.answers().prompt;
  auto rollout = std::make_shared<Rollout>();
  rollout->worker = worker_;
  rollout->group = group.id;
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
    const Score score = tokens_->task->score(group.prompt, tokens_->decode(answer));
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

void AnswerCore::retry(uint32_t group) {
  if (group >= groups_.size() || !groups_[group].waits) return;
  ++report_.retries;
  send(groups_[group]);
}

void AnswerCore::retry_all() {
  for (const Group& group : groups_) retry(group.id);
}

void AnswerCore::beat() {
  for (Group& group : groups_)
    if (group.waits && group.retry.beat()) retry(group.id);
}

std::string AnswerCore::save() const {
  TROUPE_CHECK(credits_ == 0 && std::ranges::none_of(groups_, &Group::waits), credits_);
  return to_bytes(next_request_, next_prompt_, sequence_, report_);
}

void AnswerCore::load(const std::string& bytes) {
  from_bytes(bytes, "worker " + std::to_string(worker_), next_request_, next_prompt_, sequence_, report_);
}

std::optional<std::string> AnswerCore::failing() const {
  bool any = false;
  for (const Group& group : groups_) {
    if (!group.waits) continue;
    if (!group.retry.is_failing()) return std::nullopt;
    any = true;
  }
  return any ? std::optional(report_.last_error) : std::nullopt;
}

}  // namespace troupe
