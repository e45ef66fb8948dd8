#include "models/learning/answer_metrics.h"

namespace troupe {

namespace {

using Value = std::optional<double>;
using Figures = UpdateFigures;
using AnswerRange = BatchAnswers::Range;

constexpr Summary kAnswerMean = Summary::mean, kAnswerLeast = Summary::smallest, kAnswerMost = Summary::largest;

// The result of `read`; nothing without answers.
template <class Read>
Value of_answers(const Figures& f, Read read) {
  return f.targets && f.targets->answers ? Value(read(*f.targets->answers)) : Value();
}

// Functions for the table, each of which reads one number.
template <auto member>
Value answers(const Figures& f) {
  return of_answers(f, [](const BatchAnswers& a) { return a.*member; });
}
template <AnswerRange BatchAnswers::* range, double AnswerRange::* member>
Value of_range(const Figures& f) {
  return of_answers(f, [](const BatchAnswers& a) { return (a.*range).*member; });
}

Value computed_tokens(const Figures& f) {
  return f.epoch.steps > 0 ? of_answers(f, [&](auto&) { return f.epoch.loss.count; }) : Value();
}

constexpr const char* kOfSuperBatch = "Answers of an update";
constexpr const char* kWithAnswers = "in token runs";
constexpr const char* kWithOverlong = "in token runs if `algorithm.overlong_penalty` is above 0";
constexpr const char* kWithFiltration = "in token runs if `algorithm.policy_filtration` is set";
constexpr const char* kAnswerShare = "0 to 1";
constexpr const char* kAnswerTokens = "tokens";
constexpr const char* kScaledRewards = "scaled rewards";

}  // namespace

std::vector<Metric> answer_metrics() {
  return {
      {kOfSuperBatch, "answer_tokens", kAnswerTokens, kAnswerMean, kWithAnswers,
       "tokens of the answers of the super-batch that have a loss", answers<&BatchAnswers::tokens>,
       shown("tokens of an update")},
      {kOfSuperBatch, "computed_tokens", kAnswerTokens, kAnswerMean, kWithAnswers,
       "the tokens whose loss was computed in the last epoch, without epochs of the value function alone "
       "(`trainer.value_epochs`) and without skipped optimizer steps; an answer that policy filtration drew several "
       "times counts as often. A group whose answers have equal rewards has no advantages, and is left out where it "
       "would add nothing, but one group of a minibatch at least is computed. The figures of losses and of the policy "
       "are of these tokens",
       computed_tokens, shown("tokens whose loss was computed")},
      {kOfSuperBatch, "answer_length_mean", kAnswerTokens, kAnswerMean, kWithAnswers,
       "mean length of the answers of the super-batch; with several turns (`task.turns`), the tokens of all turns, "
       "without messages",
       of_range<&BatchAnswers::length, &AnswerRange::mean>, shown("answer length of an update")},
      {kOfSuperBatch, "answer_length_min", kAnswerTokens, kAnswerLeast, kWithAnswers, "length of the shortest of them",
       of_range<&BatchAnswers::length, &AnswerRange::least>},
      {kOfSuperBatch, "answer_length_max", kAnswerTokens, kAnswerMost, kWithAnswers, "length of the longest of them",
       of_range<&BatchAnswers::length, &AnswerRange::most>},
      {kOfSuperBatch, "prompt_length_mean", kAnswerTokens, kAnswerMean, kWithAnswers,
       "mean length of the prompts of the super-batch, each of which counts once",
       of_range<&BatchAnswers::prompt_length, &AnswerRange::mean>, shown("prompt length of an update")},
      {kOfSuperBatch, "prompt_length_min", kAnswerTokens, kAnswerLeast, kWithAnswers, "length of the shortest of them",
       of_range<&BatchAnswers::prompt_length, &AnswerRange::least>},
      {kOfSuperBatch, "prompt_length_max", kAnswerTokens, kAnswerMost, kWithAnswers, "length of the longest of them",
       of_range<&BatchAnswers::prompt_length, &AnswerRange::most>},
      {kOfSuperBatch, "reward_mean", "rewards", kAnswerMean, kWithAnswers,
       "mean reward of the answers, before `algorithm.reward_clip` and without penalties",
       of_range<&BatchAnswers::reward, &AnswerRange::mean>, shown("reward of an update", Better::up)},
      {kOfSuperBatch, "reward_min", "rewards", kAnswerLeast, kWithAnswers, "the lowest of these rewards",
       of_range<&BatchAnswers::reward, &AnswerRange::least>},
      {kOfSuperBatch, "reward_max", "rewards", kAnswerMost, kWithAnswers, "the highest of these rewards",
       of_range<&BatchAnswers::reward, &AnswerRange::most>},
      {kOfSuperBatch, "advantage_min", kScaledRewards, kAnswerLeast, kWithAnswers,
       "the smallest advantage of a token that has a loss, before whitening", answers<&BatchAnswers::least_advantage>},
      {kOfSuperBatch, "advantage_max", kScaledRewards, kAnswerMost, kWithAnswers, "the largest of these advantages",
       answers<&BatchAnswers::most_advantage>},
      {kOfSuperBatch, "cut_fraction", kAnswerShare, kAnswerMean, kWithAnswers,
       "share of the answers that were cut at `generation.max_tokens`; with several turns, in their last turn",
       answers<&BatchAnswers::cut>},
      {kOfSuperBatch, "masked_fraction", kAnswerShare, kAnswerMean, kWithAnswers,
       "share of the tokens without loss, before the rejections of a correction", answers<&BatchAnswers::masked>},
      {kOfSuperBatch, "overlong_penalty", "rewards", kAnswerMean, kWithOverlong,
       "mean over answers of what is added to their scores for their length, at most 0; with several turns, for the "
       "length of the longest turn",
       [](const Figures& f) { return of_answers(f, [](const BatchAnswers& a) { return a.penalty; }); }},
      {kOfSuperBatch, "drawn_fraction", kAnswerShare, kAnswerMean, kWithFiltration,
       "share of the answers that policy filtration drew at least once",
       [](const Figures& f) { return f.targets ? f.targets->drawn : Value(); }},
  };
}

}  // namespace troupe
