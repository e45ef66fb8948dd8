#include "models/learning/answers/answer_targets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "algorithms/advantages/gae.h"
#include "algorithms/advantages/reward_shaping.h"
#include "algorithms/advantages/vtrace.h"
#include "algorithms/common/moments.h"
#include "algorithms/losses/value_loss.h"
#include "models/learning/answers/answer_correction.h"
#include "runtime/base/errors.h"

namespace troupe {
namespace {

// Answers as columns of steps, [L, S], padded with invalid steps: time-major estimators give the same bits with every
// instruction set.
struct AnswerColumns {
  int64_t steps = 0, answers = 0;
  std::vector<float> rewards, values, next_values, log_rho, advantages, returns;
  std::vector<uint8_t> terminated, truncated, valid;

  AnswerColumns(int64_t longest, int64_t count) : steps(longest), answers(count) {
    const auto all = static_cast<size_t>(longest * count);
    for (auto* numbers : {&rewards, &values, &next_values, &log_rho, &advantages, &returns}) numbers->resize(all);
    for (auto* flags : {&terminated, &truncated, &valid}) flags->resize(all);
  }
  size_t place(int64_t step, int64_t answer) const { return static_cast<size_t>(step * answers + answer); }
};

AnswerColumns columns_of(const AnswerBatch& batch, const AnswerStart& start, std::span<const float> rewards) {
  const TokenSequences sequences(batch.offsets);
  AnswerColumns out(sequences.longest(), batch.answers());
  for (int64_t a = 0; a < batch.answers(); ++a) {
    const int64_t first = sequences.begin(a), end = sequences.end(a);
    for (int64_t t = first; t < end; ++t) {
      const size_t to = out.place(t - first, a);
      const auto from = static_cast<size_t>(t);
      out.rewards[to] = rewards[from];
      out.values[to] = start.values[from];
      if (!start.log_probs.empty()) out.log_rho[to] = start.log_probs[from] - batch.log_probs[from];
      out.valid[to] = 1;
      if (t + 1 < end) out.next_values[to] = start.values[from + 1];
    }
    const size_t last = out.place(end - 1 - first, a);
    const auto answer = static_cast<size_t>(a);
    const bool goes_on = !start.final_values.empty() && !batch.cut.empty() && batch.cut[answer] != 0;
    out.terminated[last] = goes_on ? 0 : 1;
    out.truncated[last] = goes_on ? 1 : 0;
    if (goes_on) out.next_values[last] = start.final_values[answer];
  }
  return out;
}

// What GAE and V-trace read alike.
template <class Input>
Input input_of(const AlgorithmConfig& config, const AnswerColumns& c) {
  Input in;
  in.steps = c.steps;
  in.sequences = c.answers;
  in.rewards = c.rewards;
  in.values = c.values;
  in.next_values = c.next_values;
  in.terminated = c.terminated;
  in.truncated = c.truncated;
  in.valid = c.valid;
  in.gamma = static_cast<float>(config.gamma);
  in.lambda = static_cast<float>(config.lambda);
  return in;
}

void run_gae(const AlgorithmConfig& config, AnswerColumns& c) {
  gae(input_of<GaeInput>(config, c), c.advantages, c.returns);
}

void run_vtrace(const AlgorithmConfig& config, AnswerColumns& c) {
  auto in = input_of<VtraceInput>(config, c);
  in.log_rho = c.log_rho;
  in.rho_bar = static_cast<float>(config.rho_bar);
  in.c_bar = static_cast<float>(config.c_bar);
  in.pg_rho_bar = static_cast<float>(config.pg_rho_bar);
  in.multiply_pg_rho = config.vtrace_adv == "pg_rho";
  vtrace(in, c.returns, c.advantages);
}

void estimate_steps(const AlgorithmChoice& choice, const AlgorithmConfig& config, const AnswerBatch& batch,
                    const AnswerStart& start, std::span<const float> rewards, const AdvantageOutput& out) {
  TROUPE_CHECK(start.values.size() == rewards.size(), choice.advantage->name, start.values.size(), rewards.size());
  AnswerColumns columns = columns_of(batch, start, rewards);
  choice.advantage->run.importance_weights ? run_vtrace(config, columns) : run_gae(config, columns);
  for (int64_t a = 0; a < batch.answers(); ++a) {
    const int64_t first = batch.offsets[static_cast<size_t>(a)], end = batch.offsets[static_cast<size_t>(a) + 1];
    for (int64_t t = first; t < end; ++t) {
      const size_t from = columns.place(t - first, a);
      out.advantages[static_cast<size_t>(t)] = columns.advantages[from];
      out.returns[static_cast<size_t>(t)] = columns.returns[from];
    }
  }
}

float clipped(const AlgorithmConfig& config, float score) {
  const auto most = static_cast<float>(config.reward_clip);
  return most > 0 ? std::clamp(score, -most, most) : score;
}

// Of each answer, clipped as its score is.
std::vector<float> baselines_of(const AlgorithmConfig& config, const AnswerBatch& batch) {
  std::vector<float> result;
  for (size_t g = 0; g < batch.baselines.size(); ++g)
    result.insert(result.end(), static_cast<size_t>(batch.answers_of(static_cast<int64_t>(g))),
                  clipped(config, batch.baselines[g]));
  return result;
}

// With the policy at the start of the update; nothing where there is no correction, or each step makes its own.
std::optional<AnswerCorrection> correct(const AlgorithmChoice& choice, const AnswerBatch& batch,
                                        const AnswerStart& start, std::span<const float> advantages) {
  if (!choice.correction || choice.corrects_each_step()) return std::nullopt;
  return correct_answers(choice, {.log_probs = start.log_probs,
                                  .rollout = batch.log_probs,
                                  .offsets = batch.offsets,
                                  .kept = batch.kept,
                                  .advantages = advantages});
}

void estimate_answers(const AlgorithmChoice& choice, const AlgorithmConfig& config, const AnswerBatch& batch,
                      const AnswerStart& start, std::span<const float> rewards, const AdvantageOutput& out) {
  std::vector<int64_t> groups(static_cast<size_t>(batch.answers()));
  for (int64_t g = 0; g < batch.groups(); ++g)
    std::fill(groups.begin() + batch.group_offsets[static_cast<size_t>(g)],
              groups.begin() + batch.group_offsets[static_cast<size_t>(g) + 1], g);
  const std::vector<float> baselines = baselines_of(config, batch);
  AdvantageInput input;
  input.sequences = TokenSequences(batch.offsets);
  input.baselines = baselines;
  input.rewards = rewards;
  input.groups = groups;
  input.old_log_probs = start.log_probs;
  input.sum_pi_squared = start.sum_pi_squared;
  input.whitened = batch.kept;
  std::optional<AnswerCorrection> correction;
  if (needs_probabilities(choice)) correction = correct(choice, batch, start, {});
  if (correction) input.rollout_is_weights = correction->weights;
  estimate_advantages(*choice.advantage, input, choice.advantage_parameters, out);
}

// Of the policy that sampled the tokens, to the reference. Per token; empty without a reference.
std::vector<float> reference_kls(KlEstimator estimator, const AnswerBatch& batch, const AnswerStart& start) {
  if (start.reference.empty()) return {};
  if (estimator.kind == KlKind::full) estimator.kind = KlKind::k1;
  std::vector<float> result(start.reference.size());
  kl_estimate(estimator, batch.log_probs, start.reference, {}, result, {});
  return result;
}

// Whether the estimator compares whole scores: with those of other answers, or with that of the most likely one.
bool compares_answers(const AlgorithmChoice& choice) {
  return choice.advantage->needs & (kNeedsGroups | kNeedsBaselines);
}

// Moves the parts of the scores that come with the ends of turns there. Rounding may change the sums.
void add_turn_rewards(const AnswerBatch& batch, std::vector<float>& rewards) {
  for (int64_t a = 0; a < batch.answers() && !batch.turn_rewards.empty(); ++a) {
    const auto last = static_cast<size_t>(batch.offsets[static_cast<size_t>(a) + 1]) - 1;
    for (auto t = static_cast<size_t>(batch.offsets[static_cast<size_t>(a)]); t < last; ++t) {
      rewards[t] += batch.turn_rewards[t];
      rewards[last] -= batch.turn_rewards[t];
    }
  }
}

std::vector<float> token_rewards(const AlgorithmConfig& config, const ReferencePenalty& penalty,
                                 const AnswerBatch& batch, std::span<const float> kls) {
  RewardShaping shaping;
  if (config.reward_clip > 0) shaping.score_high = config.reward_clip, shaping.score_low = -config.reward_clip;
  const bool penalized = penalty.in_reward && !kls.empty();
  if (penalized) shaping.kl_coef = penalty.coef;
  std::vector<float> result(batch.tokens.size());
  shape_rewards(TokenSequences(batch.offsets), batch.rewards, penalized ? kls : std::span<const float>(), {}, shaping,
                result);
  return result;
}

// Of each answer, at most 0 (DAPO, Yu et al. 2025, arXiv:2503.14476, eq. 13). generation.max_tokens cuts turns, so the
// length is that of the longest turn: a conversation with a turn that was cut has the whole penalty.
std::vector<float> length_penalties(const AlgorithmConfig& config, const AnswerBatch& batch, int64_t longest) {
  std::vector<int64_t> lengths;
  for (int64_t a = 0; a < batch.answers(); ++a) lengths.push_back(batch.longest_turn_of(a));
  std::vector<float> result(lengths.size());
  overlong_penalty(lengths,
                   {.max_length = static_cast<double>(longest),
                    .buffer = static_cast<double>(config.overlong_buffer),
                    .factor = config.overlong_penalty,
                    .bounded = true},
                   result);
  return result;
}

double mean_of(std::span<const float> values) {
  return values.empty() ? 0.0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

template <class Numbers>
BatchAnswers::Range range_of(const Numbers& numbers) {
  if (numbers.empty()) return {};
  const auto [least, most] = std::ranges::minmax(numbers);
  const double sum = std::accumulate(numbers.begin(), numbers.end(), 0.0);
  return {sum / static_cast<double>(numbers.size()), static_cast<double>(least), static_cast<double>(most)};
}

std::vector<int64_t> lengths_of(std::span<const int64_t> offsets) {
  std::vector<int64_t> result;
  for (size_t i = 1; i < offsets.size(); ++i) result.push_back(offsets[i] - offsets[i - 1]);
  return result;
}

BatchAnswers figures_of(const AnswerBatch& batch, std::span<const float> advantages) {
  BatchAnswers result;
  const auto share = [](const std::vector<uint8_t>& flags, uint8_t value) {
    return flags.empty() ? 0.0
                         : static_cast<double>(std::ranges::count(flags, value)) / static_cast<double>(flags.size());
  };
  result.cut = share(batch.cut, 1);
  result.masked = share(batch.kept, 0);
  result.length = range_of(lengths_of(batch.offsets));
  result.prompt_length = range_of(lengths_of(batch.prompt_offsets));
  result.reward = range_of(batch.rewards);
  for (size_t t = 0; t < advantages.size(); ++t) {
    if (!batch.is_kept(t)) continue;
    const double advantage = advantages[t];
    result.least_advantage = std::min(result.least_advantage.value_or(advantage), advantage);
    result.most_advantage = std::max(result.most_advantage.value_or(advantage), advantage);
    result.tokens += 1;
  }
  return result;
}

}  // namespace

AnswerNeeds needs_of(const AlgorithmChoice& choice, const AlgorithmConfig& config, bool critic, bool reference) {
  const bool corrected = choice.correction && !choice.corrects_each_step();
  return {.policy = choice.advantage->run.importance_weights || needs_probabilities(choice) || corrected,
          .squared = needs_probabilities(choice),
          .values = critic,
          .final_values = critic && config.bootstrap_cut_answers,
          .reference = reference};
}

AnswerTargets answer_targets(const AlgorithmChoice& choice, const AlgorithmConfig& config,
                             const ReferencePenalty& penalty, const AnswerBatch& batch, AnswerStart start,
                             int64_t longest) {
  const std::vector<float> kls = reference_kls(penalty.kl, batch, start);
  std::vector<float> rewards = token_rewards(config, penalty, batch, kls);
  if (!compares_answers(choice)) add_turn_rewards(batch, rewards);
  AnswerTargets result;
  for (const float score : batch.rewards) result.scores.push_back(clipped(config, score));
  std::optional<double> penalty_of_length;
  if (config.overlong_penalty > 0) {
    const std::vector<float> penalties = length_penalties(config, batch, longest);
    for (size_t a = 0; a < penalties.size(); ++a) {
      rewards[static_cast<size_t>(batch.offsets[a + 1]) - 1] += penalties[a];
      result.scores[a] += penalties[a];
    }
    penalty_of_length = mean_of(penalties);
  }
  std::vector<float> returns(rewards.size());
  result.kept = batch.kept;
  result.advantages.resize(rewards.size());
  if (choice.advantage->run.sequences)
    estimate_answers(choice, config, batch, start, rewards, {result.advantages, returns});
  else
    estimate_steps(choice, config, batch, start, rewards, {result.advantages, returns});
  if (std::optional<AnswerCorrection> correction = correct(choice, batch, start, result.advantages)) {
    result.old_log_probs = std::move(correction->old_log_probs);
    result.rollout_weights = std::move(correction->weights);
    result.kept = std::move(correction->kept);
    result.figures.correction = correction->metrics;
  }
  result.figures.answers = figures_of(batch, result.advantages);
  result.figures.answers->penalty = penalty_of_length;
  result.figures.advantages = masked_moments(result.advantages, batch.kept);
  result.figures.returns = masked_moments(returns, batch.kept);
  if (choice.whitening) whiten(result.advantages, batch.kept, result.figures.advantages, *choice.whitening);
  if (!start.reference.empty()) {
    result.figures.reference = ReferenceFigures{.kl = masked_moments(kls, batch.kept).mean, .coef = penalty.coef};
    if (!penalty.in_reward) {
      result.reference = std::move(start.reference);
      result.reference_coef = penalty.coef;
    }
  }
  if (start.values.empty()) return result;
  result.figures.explained_variance = explained_variance(start.values, returns, batch.kept);
  result.values = std::move(start.values);
  result.returns = std::move(returns);
  return result;
}

}  // namespace troupe
