#include "actors/experience/answers/answer_sampler.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/reward_scorer.h"
#include "actors/experience/common/state_bytes.h"
#include "algorithms/choice/algorithm_choice.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// Prompts in a row without a score after which a run ends: when the verifier fails on each, and when it does not apply.
constexpr uint32_t kMostFailed = 10, kMostUnscored = 100;

using Ranges = std::vector<std::pair<int64_t, int64_t>>;  // begin and end

Array joined(const Array& array, const Ranges& ranges) {
  int64_t count = 0;
  for (const auto& [begin, end] : ranges) count += end - begin;
  Array result = Array::uninitialized(array.dtype(), {count});
  std::byte* to = result.mutable_data();
  for (const auto& [begin, end] : ranges) {
    const Array part = array.slice(begin, end);
    to = std::copy_n(part.data(), part.bytes(), to);
  }
  return result;
}

// Where the tokens of the answers with these numbers are.
Ranges token_ranges(const AnswerReply& all, const std::vector<size_t>& numbers) {
  const auto offsets = all.offsets.view<int64_t>();
  Ranges ranges;
  for (const size_t a : numbers) ranges.emplace_back(offsets[a], offsets[a + 1]);
  return ranges;
}

// The answers with these numbers, which ascend.
AnswerReply chosen(const AnswerReply& all, const std::vector<size_t>& numbers) {
  const auto offsets = all.offsets.view<int64_t>();
  if (numbers.size() + 1 == offsets.size()) return all;
  const Ranges tokens = token_ranges(all, numbers);
  Ranges answers;
  std::vector<int64_t> kept_offsets{0};
  for (const size_t a : numbers) {
    answers.emplace_back(a, a + 1);
    kept_offsets.push_back(kept_offsets.back() + offsets[a + 1] - offsets[a]);
  }
  AnswerReply result = all;
  result.offsets = Array::of(kept_offsets);
  AnswerReply::per_token(result, [&](const char*, Array& array, DType) { array = joined(array, tokens); });
  AnswerReply::per_answer(result, [&](const char*, Array& array, DType) { array = joined(array, answers); });
  return result;
}

// Each part that one of the chosen scores has, in the order in which they first occur.
std::vector<ReturnPart> parts_of(const std::vector<Score>& scores, const std::vector<size_t>& numbers) {
  std::vector<std::pair<std::string, std::vector<float>>> parts;
  for (size_t i = 0; i < numbers.size(); ++i)
    for (const auto& [name, value] : scores[numbers[i]].parts) {
      auto part = std::ranges::find(parts, name, &decltype(parts)::value_type::first);
      if (part == parts.end() && parts.size() == kMostReturnParts) continue;
      if (part == parts.end()) part = parts.emplace(part, name, std::vector<float>(numbers.size(), std::nanf("")));
      part->second[i] = static_cast<float>(value);
    }
  std::vector<ReturnPart> result;
  for (const auto& [name, values] : parts) result.push_back({name, Array::of(values)});
  return result;
}

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
  std::vector<int64_t> keys;
  for (int64_t a = 0; a < answers_asked(config_); ++a)
    keys.push_back(static_cast<int64_t>(derive_key(key, "answer", static_cast<uint64_t>(a))));
  ask(group, AnswerRequest{.prompt = Array::of(tokens_->encode(started.prompt)), .keys = Array::of(keys)});
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

void AnswerSampler::take(uint32_t number, const RequestBody& request, const InferenceReply& reply) {
  if (const auto* scoring = std::get_if<ScoringReply>(&reply.body)) {
    const uint32_t group = number - groups();
    groups_[group].scoring = *scoring;
    return put_scores(group);
  }
  const uint32_t group = number;
  Group& answered = groups_[group];
  answered.stage = Stage::scoring;
  answered.prompt_ids = std::get<AnswerRequest>(request).prompt;
  answered.epoch = reply.version.epoch;
  answered.answers = reply.answers();
  answered.score_id = scores_.add(group);
  answered.scores.clear();
  answered.scoring.reset();
  if (has_scorers(config_)) ask_scorers(group);
  ask_for_scores(group);
}

void AnswerSampler::ask_scorers(uint32_t group) {
  const Group& answered = groups_[group];
  ask(scoring_number(group),
      ScoringRequest{
          .prompt = answered.prompt_ids, .tokens = answered.answers.tokens, .offsets = answered.answers.offsets});
}

void AnswerSampler::ask_for_scores(uint32_t group) {
  const Group& answered = groups_[group];
  ScoreRequest request{.id = answered.score_id, .group = group, .prompt = answered.prompt, .answers = {}};
  const auto tokens = answered.answers.tokens.view<int32_t>();
  const auto offsets = answered.answers.offsets.view<int64_t>();
  for (size_t a = 0; a + 1 < offsets.size(); ++a) {
    const auto ids = tokens.subspan(static_cast<size_t>(offsets[a]), static_cast<size_t>(offsets[a + 1] - offsets[a]));
    request.answers.push_back(tokens_->decode(ids));
    request.tokens.emplace_back(ids.begin(), ids.end());
  }
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
  groups_[reply.group].scores = reply.scores;
  put_scores(reply.group);
}

size_t AnswerSampler::scores_outstanding() const {
  const auto wait_for_scorers = std::ranges::count_if(groups_, [](const Group& g) { return !g.scores.empty(); });
  return scores_.outstanding() - static_cast<size_t>(wait_for_scorers);
}

void AnswerSampler::put_scores(uint32_t group) {
  Group& answered = groups_[group];
  if (answered.scores.empty() || (has_scorers(config_) && !answered.scoring)) return;
  if (config_.reward_model.by_scorers())
    add_model_scores(config_, answered.scoring->scores.view<float>(), answered.scores);
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
  count_scored(scored.scores);
  port_.push(rollout_of(scored));
  record(groups_[group], scored.scores);
  groups_[group].stage = Stage::idle;
  if (!start_with_credit(group)) wait_for_credit(group);
}

RolloutPtr AnswerSampler::rollout_of(const ScoreOrder::Scored& scored) {
  const Group& answered = groups_[scored.group];
  const auto asked = static_cast<size_t>(answered.answers.count());
  TROUPE_CHECK(scored.scores.size() == asked, scored.scores.size(), asked);
  const auto sampled = static_cast<size_t>(config_.generation.answers);  // the next one, if there is one, is greedy
  const Score* const greedy = asked > sampled ? &scored.scores[sampled] : nullptr;
  const bool usable = greedy == nullptr || greedy->scored == Scored::yes;  // without its baseline a group is not
  std::vector<size_t> kept;
  for (size_t a = 0; a < sampled; ++a)
    if (usable && scored.scores[a].scored == Scored::yes) kept.push_back(a);
  if (kept.size() < std::min(fewest_, sampled)) kept.clear();
  const AnswerReply answers = chosen(answered.answers, kept);
  const Array reference = config_.reference.by_scorers()
                              ? joined(answered.scoring->reference, token_ranges(answered.answers, kept))
                              : Array();
  const auto offsets = answers.offsets.view<int64_t>();
  // Replay finds the credit of a rollout by its versions, also when no answer is left.
  const auto version = (kept.empty() ? answered.answers : answers).version.view<int64_t>();
  auto rollout = std::make_shared<Rollout>();
  rollout->worker = worker_;
  rollout->group = scored.group;
  rollout->sequence = sequence_++;
  rollout->epoch = answered.epoch;
  rollout->oldest = static_cast<uint64_t>(std::ranges::min(version));
  rollout->newest = static_cast<uint64_t>(std::ranges::max(version));
  rollout->samples = kept.size();
  rollout->verifier_failed = static_cast<uint64_t>(std::ranges::count(scored.scores, Scored::failed, &Score::scored));
  rollout->baselines = greedy != nullptr && usable ? 1 : 0;
  rollout->unscored = asked - kept.size() - rollout->verifier_failed - rollout->baselines;
  rollout->env_steps = asked;
  std::vector<float> rewards;
  std::vector<uint8_t> right;
  std::vector<int32_t> lengths;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Score& score = scored.scores[kept[i]];
    rewards.push_back(static_cast<float>(score.reward));
    right.push_back(score.right ? 1 : 0);
    lengths.push_back(static_cast<int32_t>(offsets[i + 1] - offsets[i]));
  }
  rollout->episodes = {Array::of(rewards), Array::of(lengths), Array::of(right), parts_of(scored.scores, kept)};
  rollout->body = Answers{
      .prompts = answered.prompt_ids,
      .prompt_offsets = Array::of(std::vector<int64_t>{0, answered.prompt_ids.size()}),
      .sampled = answers,
      .group = Array(DType::i32, {static_cast<int64_t>(kept.size())}),
      .rewards = rollout->episodes.returns,
      .right = rollout->episodes.success,
      .baselines =
          greedy == nullptr ? Array() : Array::of(std::vector<float>{static_cast<float>(usable ? greedy->reward : 0)}),
      .reference = reference};
  report_.env_steps += asked;
  return rollout;
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
  TROUPE_CHECK(scores_.empty(), scores_.outstanding());
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
    const uint32_t waits_for = stage == Stage::asking ? group : scoring_number(group);
    if (stage == Stage::scoring && (!has_scorers(config_) || !is_asking(waits_for))) return std::nullopt;
    if (!inference_fails(waits_for)) return std::nullopt;
    any = true;
  }
  return any ? std::optional(report_.last_error) : std::nullopt;
}

}  // namespace troupe
