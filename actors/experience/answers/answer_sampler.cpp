#include "actors/experience/answers/answer_sampler.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/answer_rollout.h"
#include "actors/experience/answers/reward_grader.h"
#include "actors/experience/common/state_bytes.h"
#include "algorithms/choice/algorithm_choice.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// Prompts in a row without a score after which a run ends: when the verifier fails on each, and when it does not apply.
constexpr uint32_t kMostFailed = 10, kMostUnscored = 100;

}  // namespace

AnswerSampler::AnswerSampler(const RunConfig& config, std::shared_ptr<const TokenRun> tokens, uint64_t worker,
                             SamplerPort& port)
    : Sampler(worker, config.workers.groups, port, kPatience, has_scorers(config)),
      config_(config),
      tokens_(std::move(tokens)),
      groups_(static_cast<size_t>(config.workers.groups)),
      fewest_(needs_groups(choose_algorithm(config.algorithm)) ? 2 : 1) {
  if (config.task.sampling == "failure_weighted") prompts_.emplace(tokens_->task->listed(Split::train));
}

void AnswerSampler::begin(uint32_t epoch) {
  epoch_ = epoch;
  for (uint32_t group = 0; group < groups(); ++group) wait_for_credit(group);
}

void AnswerSampler::start(uint32_t group) {
  const uint64_t walk = derive_key(config_.seed, "prompt", epoch_, worker_), number = next_prompt_++;
  const uint64_t key = derive_key(walk, "prompt", number);
  Group& started = groups_[group];
  started.stage = Stage::asking;
  if (prompts_) {
    Rng rng(derive_key(key, "draw"));
    started.listed = prompts_->draw(rng);
    started.prompt = tokens_->task->listed_prompt(started.listed, Split::train);
  } else {
    started.prompt = tokens_->task->prompt(walk, number, Split::train);
  }
  started.prompt_ids = Array::of(tokens_->encode(started.prompt));
  started.keys.clear();
  for (int64_t a = 0; a < answers_asked(config_); ++a)
    started.keys.push_back(derive_key(key, "answer", static_cast<uint64_t>(a)));
  ask_from_start(group);
}

void AnswerSampler::ask_from_start(uint32_t group) {
  Group& started = groups_[group];
  started.conversations.assign(started.keys.size(), {});
  started.open.resize(started.keys.size());
  std::iota(started.open.begin(), started.open.end(), size_t{0});
  ask_turn(group);
}

void AnswerSampler::ask_turn(uint32_t group) {
  Group& asking = groups_[group];
  asking.stage = Stage::asking;
  std::vector<int64_t> keys, offsets{0};
  std::vector<uint8_t> greedy;
  std::vector<int32_t> history;
  for (const size_t a : asking.open) {
    const Conversation& conversation = asking.conversations[a];
    keys.push_back(static_cast<int64_t>(turn_key(asking.keys[a], conversation.turns().size())));
    greedy.push_back(static_cast<int64_t>(a) < config_.generation.answers ? 0 : 1);
    history.insert(history.end(), conversation.tokens().begin(), conversation.tokens().end());
    offsets.push_back(static_cast<int64_t>(history.size()));
  }
  AnswerRequest request{.prompt = asking.prompt_ids, .keys = Array::of(keys)};
  if (needs_greedy_answer(config_)) request.greedy = Array::of(greedy);
  if (!history.empty()) {
    request.history = Array::of(history);
    request.history_offsets = Array::of(offsets);
  }
  ask(group, std::move(request));
}

Misfit AnswerSampler::misfit(uint32_t /*number*/, const RequestBody& request, const InferenceReply& reply) const {
  if (const auto* scoring = std::get_if<ScoringRequest>(&request)) {
    const auto* scores = std::get_if<ScoringReply>(&reply.body);
    if (scores == nullptr) return "it holds no scores";
    return troupe::misfit(config_, *scoring, *scores);
  }
  const auto* answers = std::get_if<AnswerReply>(&reply.body);
  if (answers == nullptr) return "it holds no answers";
  return troupe::misfit(*tokens_, std::get<AnswerRequest>(request), *answers);
}

void AnswerSampler::take(uint32_t number, const RequestBody& /*request*/, const InferenceReply& reply) {
  if (const auto* scoring = std::get_if<ScoringReply>(&reply.body)) {
    const uint32_t group = number - groups();
    groups_[group].scoring = *scoring;
    return put_scores(group);
  }
  take_answers(number, reply);
}

void AnswerSampler::take_answers(uint32_t group, const InferenceReply& reply) {
  Group& answered = groups_[group];
  const bool first = answered.conversations.front().turns().empty();
  // A conversation has tokens of one start of the run.
  if (!first && reply.version.epoch != answered.epoch) return ask_from_start(group);
  answered.epoch = reply.version.epoch;
  const std::vector<GeneratedAnswer> answers = unpacked(reply.answers());
  for (size_t i = 0; i < answers.size(); ++i)
    answered.conversations[answered.open[i]].add_answer(answers[i], tokens_->decode(answers[i].tokens));
  if (static_cast<int64_t>(answered.conversations[answered.open.front()].turns().size()) < tokens_->turns)
    return ask_for_messages(group);
  complete(group);
}

void AnswerSampler::ask_for_messages(uint32_t group) {
  Group& answered = groups_[group];
  answered.stage = Stage::replying;
  answered.score_id = messages_.add(group);
  send_score_request(group, ScoreKind::replies, open_conversations(answered));
}

std::vector<const Conversation*> AnswerSampler::open_conversations(const Group& group) {
  std::vector<const Conversation*> result;
  for (const size_t a : group.open) result.push_back(&group.conversations[a]);
  return result;
}

// The answers with a message have a next turn.
void AnswerSampler::take_messages(uint32_t group, const std::vector<Reply>& replies) {
  Group& answered = groups_[group];
  std::vector<size_t> open;
  for (size_t i = 0; i < replies.size(); ++i) {
    Conversation& conversation = answered.conversations[answered.open[i]];
    if (continue_conversation(*tokens_, replies[i], conversation)) open.push_back(answered.open[i]);
  }
  answered.open = open;
  open.empty() ? complete(group) : ask_turn(group);
}

// All turns of all answers are there.
void AnswerSampler::complete(uint32_t group) {
  Group& answered = groups_[group];
  answered.stage = Stage::scoring;
  answered.answers = packed(answered.conversations);
  answered.messages = tokens_->turns > 1 ? messages_of(answered.conversations) : MessageTokens();
  answered.score_id = scores_.add(group);
  answered.scores.clear();
  answered.scoring.reset();
  if (has_scorers(config_)) ask_scorers(group);
  ask_for_scores(group);
}

void AnswerSampler::ask_scorers(uint32_t group) {
  const Group& answered = groups_[group];
  ask(scoring_number(group), ScoringRequest{.prompt = answered.prompt_ids,
                                            .tokens = answered.answers.tokens,
                                            .offsets = answered.answers.offsets,
                                            .messages = answered.messages});
}

void AnswerSampler::ask_for_scores(uint32_t group) {
  std::vector<const Conversation*> all;
  for (const Conversation& conversation : groups_[group].conversations) all.push_back(&conversation);
  send_score_request(group, ScoreKind::scores, all);
}

void AnswerSampler::send_score_request(uint32_t group, ScoreKind kind, const std::vector<const Conversation*>& of) {
  ScoreRequest request = score_request(kind, groups_[group].prompt, of);
  request.id = groups_[group].score_id;
  request.group = group;
  port_.score(std::move(request));
}

void AnswerSampler::on_wake(uint32_t group, uint32_t /*item*/) {
  const Group& waiting = groups_[group];
  if (waiting.stage == Stage::scoring && scores_.ask_again(waiting.score_id)) ask_for_scores(group);
  if (waiting.stage == Stage::replying && messages_.ask_again(waiting.score_id))
    send_score_request(group, ScoreKind::replies, open_conversations(waiting));
}

void AnswerSampler::on_scores(const ScoreReply& reply) {
  const bool messages = reply.kind == ScoreKind::replies;
  ScoreOrder& requests = messages ? messages_ : scores_;
  if (!requests.awaits(reply)) return;
  busy_ += reply.spent;
  if (!reply.error.empty()) {
    report_.last_error = "scoring failed: " + reply.error;
    return port_.wake_later(reply.group, 0, requests.failed(reply.id, reply.error));
  }
  if (messages) {
    messages_.drop(reply.id);
    return take_messages(reply.group, reply.replies);
  }
  groups_[reply.group].scores = reply.scores;
  put_scores(reply.group);
}

size_t AnswerSampler::scores_outstanding() const {
  const auto wait_for_scorers = std::ranges::count_if(groups_, [](const Group& g) { return !g.scores.empty(); });
  return scores_.outstanding() + messages_.outstanding() - static_cast<size_t>(wait_for_scorers);
}

void AnswerSampler::put_scores(uint32_t group) {
  Group& answered = groups_[group];
  if (answered.scores.empty() || (has_scorers(config_) && !answered.scoring)) return;
  if (config_.reward_model.by_scorers())
    add_model_scores(config_, answered.scoring->scores.view<float>(), answered.scores);
  check_turns(answered.conversations, answered.scores);
  scores_.put(answered.score_id, std::move(answered.scores));
  while (const auto scored = scores_.next()) push(*scored);
}

void AnswerSampler::count_scored(const std::vector<Score>& scores) {
  const auto failed = std::ranges::find(scores, Scored::failed, &Score::scored);
  if (failed != scores.end()) report_.last_error = "scoring failed: " + failed->problem;
  if (std::ranges::find(scores, Scored::yes, &Score::scored) != scores.end()) {
    failed_in_a_row_ = unscored_in_a_row_ = 0;
    return;
  }
  ++unscored_in_a_row_;
  failed_in_a_row_ = failed == scores.end() ? 0 : failed_in_a_row_ + 1;
  if (failed_in_a_row_ >= kMostFailed)
    throw ScoringFailed("scoring failed on the answers to " + std::to_string(failed_in_a_row_) +
                        " prompts in a row, the last time with: " + failed->problem);
  if (unscored_in_a_row_ >= kMostUnscored)
    throw ScoringFailed("the verifier gave no score to any answer to " + std::to_string(unscored_in_a_row_) +
                        " prompts in a row");
}

void AnswerSampler::push(const ScoreOrder::Scored& scored) {
  const uint32_t group = scored.group;
  const Group& answered = groups_[group];
  count_scored(scored.scores);
  const Array reference = config_.reference.by_scorers() ? answered.scoring->reference : Array();
  const std::shared_ptr<Rollout> rollout =
      rollout_of(config_, fewest_,
                 {.prompt = answered.prompt_ids,
                  .epoch = answered.epoch,
                  .answers = answered.answers,
                  .messages = answered.messages,
                  .turn_rewards = turn_rewards(answered.conversations, scored.scores),
                  .reference = reference,
                  .source = answered.prompt.source},
                 scored.scores);
  rollout->worker = worker_;
  rollout->group = group;
  rollout->sequence = sequence_++;
  report_.env_steps += rollout->env_steps;
  port_.push(rollout);
  record(answered, scored.scores);
  groups_[group].stage = Stage::idle;
  if (!start_with_credit(group)) wait_for_credit(group);
}

// Notes how many of the sampled answers were right, of those that have a score.
void AnswerSampler::record(const Group& answered, const std::vector<Score>& scores) {
  if (!prompts_) return;
  const auto sampled = std::span(scores).first(static_cast<size_t>(config_.generation.answers));
  const auto with_score = std::ranges::count(sampled, Scored::yes, &Score::scored);
  const auto right = std::ranges::count_if(sampled, [](const Score& s) { return s.scored == Scored::yes && s.right; });
  if (with_score > 0)
    prompts_->record(answered.listed, static_cast<uint64_t>(with_score), static_cast<uint64_t>(right));
}

void AnswerSampler::add_to(WorkerReport& report) const {
  if (prompts_) report.prompts = prompts_->figures();
}

std::vector<std::string> AnswerSampler::save_parts() const {
  TROUPE_CHECK(scores_.empty() && messages_.empty(), scores_.outstanding(), messages_.outstanding());
  std::vector<std::string> parts{to_bytes(next_prompt_)};
  if (prompts_) parts.push_back(prompts_->save());
  return parts;
}

void AnswerSampler::load_parts(const std::vector<std::string>& parts) {
  TROUPE_CHECK(parts.size() == (prompts_ ? 2 : 1), parts.size());
  const std::string whose = "worker " + std::to_string(worker_);
  from_bytes(parts[0], whose, next_prompt_);
  if (prompts_) prompts_->load(parts[1], whose);
}

std::optional<std::string> AnswerSampler::failing() const {
  bool any = false;
  for (uint32_t group = 0; group < groups(); ++group) {
    const Stage stage = groups_[group].stage;
    if (stage == Stage::idle) continue;
    if (stage == Stage::replying) return std::nullopt;
    const uint32_t waits_for = stage == Stage::asking ? group : scoring_number(group);
    if (stage == Stage::scoring && (!has_scorers(config_) || !is_asking(waits_for))) return std::nullopt;
    if (!inference_fails(waits_for)) return std::nullopt;
    any = true;
  }
  return any ? std::optional(report_.last_error) : std::nullopt;
}

}  // namespace troupe
