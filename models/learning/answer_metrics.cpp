#include "models/learning/answer_metrics.h"

namespace troupe {

namespace {

using Value = std::optional<double>;
using Figures = UpdateFigures;
using Answers = BatchAnswers;
using Range = BatchAnswers::Range;

constexpr Summary kMean = Summary::mean, kSmallest = Summary::smallest, kLargest = Summary::largest;

// The result of `read`; nothing without answers.
template <class Read>
Value of_answers(const Figures& f, Read read) {
  return f.targets && f.targets->answers ? Value(read(*f.targets->answers)) : Value();
}

// Functions for the table, each of which reads one number.
template <double Answers::* member>
Value answers(const Figures& f) {
  return of_answers(f, [](const Answers& a) { return a.*member; });
}
template <Range Answers::* range, double Range::* member>
Value of_range(const Figures& f) {
  return of_answers(f, [](const Answers& a) { return (a.*range).*member; });
}

Value computed_tokens(const Figures& f) {
  return f.epoch.steps > 0 ? of_answers(f, [&](auto&) { return f.epoch.loss.count; }) : Value();
}

constexpr const char* kBatch = "Answers of an update";
constexpr const char* kInTokenRuns = "in token runs";
constexpr const char* kOverlong = "in token runs if `algorithm.overlong_penalty` is above 0";
constexpr const char* kFiltered = "in token runs if `algorithm.policy_filtration` is set";
constexpr const char* kFraction = "0 to 1";
constexpr const char* kTokens = "tokens";
constexpr const char* kScaled = "scaled rewards";

}  // namespace

std::vector<Metric> answer_metrics() {
  return {
      {kBatch, "answer_tokens", kTokens, kMean, kInTokenRuns,
       "tokens of the answers of the super-batch that have a loss", answers<&Answers::tokens>,
       shown("tokens of an update")},
      {kBatch, "computed_tokens", kTokens, kMean, kInTokenRuns,
       "of these, the tokens whose loss was computed in the last epoch. A group whose answers have equal rewards has "
       "no "
       "advantages, and is left out where it would add nothing. The figures of losses, of the policy and of "
       "micro-batches are of these tokens, which are those of one group at least",
       computed_tokens, shown("tokens whose loss was computed")},
      {kBatch, "answer_length_mean", kTokens, kMean, kInTokenRuns, "mean length of the answers of the super-batch",
       of_range<&Answers::length, &Range::mean>, shown("answer length of an update")},
      {kBatch, "answer_length_min", kTokens, kSmallest, kInTokenRuns, "length of the shortest of them",
       of_range<&Answers::length, &Range::least>},
      {kBatch, "answer_length_max", kTokens, kLargest, kInTokenRuns, "length of the longest of them",
       of_range<&Answers::length, &Range::most>},
      {kBatch, "prompt_length_mean", kTokens, kMean, kInTokenRuns,
       "mean length of the prompts of the super-batch, each of which counts once",
       of_range<&Answers::prompt_length, &Range::mean>, shown("prompt length of an update")},
      {kBatch, "prompt_length_min", kTokens, kSmallest, kInTokenRuns, "length of the shortest of them",
       of_range<&Answers::prompt_length, &Range::least>},
      {kBatch, "prompt_length_max", kTokens, kLargest, kInTokenRuns, "length of the longest of them",
       of_range<&Answers::prompt_length, &Range::most>},
      {kBatch, "reward_mean", "rewards", kMean, kInTokenRuns,
       "mean reward of the answers, before `algorithm.reward_clip` and without penalties",
       of_range<&Answers::reward, &Range::mean>, shown("reward of an update", Better::up)},
      {kBatch, "reward_min", "rewards", kSmallest, kInTokenRuns, "the lowest of these rewards",
       of_range<&Answers::reward, &Range::least>},
      {kBatch, "reward_max", "rewards", kLargest, kInTokenRuns, "the highest of these rewards",
       of_range<&Answers::reward, &Range::most>},
      {kBatch, "advantage_min", kScaled, kSmallest, kInTokenRuns,
       "the smallest advantage of a token that has a loss, before whitening", answers<&Answers::least_advantage>},
      {kBatch, "advantage_max", kScaled, kLargest, kInTokenRuns, "the largest of these advantages",
       answers<&Answers::most_advantage>},
      {kBatch, "cut_answers", kFraction, kMean, kInTokenRuns,
       "share of the answers that were cut at their largest number of tokens", answers<&Answers::cut>},
      {kBatch, "masked_tokens", kFraction, kMean, kInTokenRuns,
       "share of the tokens without loss, before the rejections of a correction", answers<&Answers::masked>},
      {kBatch, "overlong_penalty", "rewards", kMean, kOverlong,
       "mean over answers of what is added to their scores for their length, at most 0",
       [](const Figures& f) { return of_answers(f, [](const Answers& a) { return a.penalty; }); }},
      {kBatch, "drawn_answers", kFraction, kMean, kFiltered,
       "share of the answers that policy filtration drew at least once",
       [](const Figures& f) { return f.targets ? f.targets->drawn : Value(); }},
  };
}

}  // namespace troupe
