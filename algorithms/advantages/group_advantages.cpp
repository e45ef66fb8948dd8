#include "algorithms/advantages/group_advantages.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "algorithms/common/groups.h"
#include "algorithms/common/moments.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

// The score of every sequence: the sum of its rewards over its unmasked tokens, or over all of them.
std::vector<double> scores_of(const AdvantageInput& in, const ParameterValues& parameters) {
  const bool all = parameters.flag("count_masked_rewards");
  std::vector<double> scores(static_cast<std::size_t>(in.sequences.count()), 0.0);
  for (int64_t sequence = 0; sequence < in.sequences.count(); ++sequence) {
    const auto [begin, end] = in.range(sequence);
    for (std::size_t token = begin; token < end; ++token)
      if (all || in.counts(token)) scores[static_cast<std::size_t>(sequence)] += double{in.rewards[token]};
  }
  return scores;
}

// Writes the number of each sequence to all its unmasked tokens.
void spread(const AdvantageInput& in, const std::vector<double>& per_sequence, const AdvantageOutput& out) {
  for (int64_t sequence = 0; sequence < in.sequences.count(); ++sequence) {
    const auto [begin, end] = in.range(sequence);
    const auto value = static_cast<float>(per_sequence[static_cast<std::size_t>(sequence)]);
    for (std::size_t token = begin; token < end; ++token)
      out.advantages[token] = out.returns[token] = in.counts(token) ? value : 0.0f;
  }
}

// Whether each sequence is compared with others: it has an unmasked token, or, where the rewards at masked tokens
// count, any token.
std::vector<uint8_t> compared(const AdvantageInput& in, const ParameterValues& parameters) {
  const bool all = parameters.flag("count_masked_rewards");
  std::vector<uint8_t> result;
  for (int64_t sequence = 0; sequence < in.sequences.count(); ++sequence) {
    const auto [begin, end] = in.range(sequence);
    bool counts = false;
    for (std::size_t token = begin; token < end && !counts; ++token) counts = all || in.counts(token);
    result.push_back(counts);
  }
  return result;
}

// Read and write access to the scores of one group: of its sequences that are compared.
class Group {
 public:
  Group(std::span<const int64_t> sequences, std::size_t all, std::vector<double>& scores)
      : sequences_(sequences), all_(all), scores_(scores) {}

  std::size_t size() const { return sequences_.size(); }
  std::size_t with_left_out() const { return all_; }
  int64_t sequence(std::size_t i) const { return sequences_[i]; }
  double& operator[](std::size_t i) const { return scores_[static_cast<std::size_t>(sequences_[i])]; }

  Moments moments() const {
    Moments out;
    out.count = static_cast<double>(size());
    for (std::size_t i = 0; i < size(); ++i) out.mean += (*this)[i];
    out.mean /= out.count;
    for (std::size_t i = 0; i < size(); ++i) out.m2 += ((*this)[i] - out.mean) * ((*this)[i] - out.mean);
    return out;
  }

 private:
  std::span<const int64_t> sequences_;
  std::size_t all_;
  std::vector<double>& scores_;
};

// Replaces the scores of every group by advantages with rule(group), and copies them to the tokens. A sequence that is
// not compared is left out of its group.
template <class Rule>
void by_group(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out, Rule rule) {
  std::vector<double> scores = scores_of(in, parameters);
  const std::vector<uint8_t> counts = compared(in, parameters);
  const GroupIndex index = index_groups(in.groups);
  std::vector<int64_t> members;
  for (int64_t g = 0; g < index.count(); ++g) {
    const std::span<const int64_t> all = index.group(g);
    members.clear();
    std::ranges::copy_if(all, std::back_inserter(members),
                         [&](int64_t sequence) { return counts[static_cast<std::size_t>(sequence)] != 0; });
    if (!members.empty()) rule(Group(members, all.size(), scores));
  }
  spread(in, scores, out);
}

// (s - mean) / divisor; for a group of one, mean 0 and deviation 1.
template <class Deviation>
void standardize(const Group& group, bool by_std, double epsilon, Deviation deviation) {
  const bool alone = group.size() == 1;
  const Moments moments = group.moments();
  const double divisor = by_std ? (alone ? 1.0 : deviation(moments)) + epsilon : 1.0;
  for (std::size_t i = 0; i < group.size(); ++i) group[i] = (group[i] - (alone ? 0.0 : moments.mean)) / divisor;
}

void subtract(const Group& group, double baseline) {
  for (std::size_t i = 0; i < group.size(); ++i) group[i] -= baseline;
}

// The mean of a group; 0 for a group of one, which keeps its score.
double mean_of(const Group& group) { return group.size() == 1 ? 0.0 : group.moments().mean; }

}  // namespace

void grpo(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  const bool by_std = parameters.flag("norm_adv_by_std_in_grpo");
  const double epsilon = parameters.number("epsilon");
  by_group(in, parameters, out, [&](const Group& group) {
    standardize(group, by_std, epsilon, [](const Moments& moments) { return moments.stddev(/*unbiased=*/true); });
  });
}

void grpo_vectorized(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  const bool by_std = parameters.flag("norm_adv_by_std_in_grpo");
  const double epsilon = parameters.number("epsilon");
  by_group(in, parameters, out, [&](const Group& group) {
    standardize(group, by_std, epsilon, [&](const Moments& moments) {
      const double variance = moments.variance(/*unbiased=*/true);
      return std::sqrt(variance < epsilon ? epsilon : variance);
    });
  });
}

void dr_grpo(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  by_group(in, parameters, out, [](const Group& group) { subtract(group, mean_of(group)); });
}

void grpo_passk(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  const bool by_std = parameters.flag("norm_adv_by_std_in_grpo");
  const double epsilon = parameters.number("epsilon");
  by_group(in, parameters, out, [&](const Group& group) {
    if (group.with_left_out() < 2)
      throw ConfigError("groups: sequence " + std::to_string(group.sequence(0)) +
                        " is alone in its group, grpo_passk needs at least 2 sequences in each");
    if (group.size() < 2) {
      group[0] = 0;
      return;
    }
    const double divisor = by_std ? group.moments().stddev(/*unbiased=*/true) + epsilon : 1.0;
    std::size_t best = 0;
    double second = -std::numeric_limits<double>::infinity();
    bool unordered = std::isnan(group[0]);
    for (std::size_t i = 1; i < group.size(); ++i) {
      unordered = unordered || std::isnan(group[i]);
      if (group[i] > group[best]) {
        second = group[best];
        best = i;
      } else {
        second = std::max(second, group[i]);
      }
    }
    const double lead = unordered ? std::numeric_limits<double>::quiet_NaN() : group[best] - second;
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = i == best || unordered ? lead / divisor : 0.0;
  });
}

void reinforce_plus_plus_baseline(const AdvantageInput& in, const ParameterValues& parameters,
                                  const AdvantageOutput& out) {
  dr_grpo(in, parameters, out);
  if (!parameters.flag("whiten")) return;
  WhitenParams params = find_whiten_variant("verl");  // github.com/volcengine/verl
  params.zero_masked = true;
  whiten(out.advantages, in.whitening_mask(), params);
  std::copy(out.advantages.begin(), out.advantages.end(), out.returns.begin());
}

void rloo(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  const bool keep_score = parameters.text("singleton") == "score";
  by_group(in, parameters, out, [&](const Group& group) {
    const auto n = static_cast<double>(group.size());
    if (group.size() == 1) {
      if (!keep_score) group[0] = 0;
      return;
    }
    const double mean = group.moments().mean;
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = (group[i] - mean) * n / (n - 1);
  });
}

void opo(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  const auto length = [&](int64_t sequence) {
    const auto [begin, end] = in.range(sequence);
    double tokens = 0;
    for (std::size_t token = begin; token < end; ++token) tokens += in.counts(token) ? 1 : 0;
    return tokens;
  };
  by_group(in, parameters, out, [&](const Group& group) {
    if (group.size() == 1) return;
    double tokens = 0, weighted = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const double own = length(group.sequence(i));
      tokens += own;
      weighted += own * group[i];
    }
    if (tokens > 0) subtract(group, weighted / tokens);
  });
}

void gpg(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  const std::vector<double> scores = scores_of(in, parameters);
  const std::vector<uint8_t> counts = compared(in, parameters);
  double sequences = 0, nonzero = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (counts[i] == 0) continue;
    sequences += 1;
    nonzero += scores[i] != 0.0 ? 1 : 0;
  }
  const double factor = sequences / std::max(nonzero, 1.0) / parameters.number("f_norm");
  by_group(in, parameters, out, [&](const Group& group) {
    subtract(group, mean_of(group));
    for (std::size_t i = 0; i < group.size(); ++i) group[i] *= factor;
  });
}

}  // namespace troupe
