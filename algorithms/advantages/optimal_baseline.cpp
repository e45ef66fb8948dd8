#include "algorithms/advantages/optimal_baseline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithms/common/groups.h"

namespace troupe {

namespace {

// Per token of the whole batch; only the elements at unmasked tokens are used.
struct Weighted {
  std::vector<double> to_go;   // G_t
  std::vector<double> weight;  // W_t
};

// W_t: the sum up to t of |d log pi / d logits|^2 = 1 - 2 pi + sum pi^2, over unmasked tokens.
void accumulate_weights(const AdvantageInput& in, std::size_t begin, std::size_t end, std::vector<double>& weight) {
  double sum = 0;
  for (std::size_t token = begin; token < end; ++token) {
    if (!in.counts(token)) continue;
    double own = 1 - 2 * std::exp(double{in.old_log_probs[token]}) + double{in.sum_pi_squared[token]};
    if (!in.rollout_is_weights.empty())
      own *= double{in.rollout_is_weights[token]} * double{in.rollout_is_weights[token]};
    weight[token] = sum += own;
  }
}

Weighted weigh(const AdvantageInput& in) {
  Weighted out{std::vector<double>(in.rewards.size(), 0.0), std::vector<double>(in.rewards.size(), 0.0)};
  for (int64_t sequence = 0; sequence < in.sequences.count(); ++sequence) {
    const auto [begin, end] = in.range(sequence);
    double carry = 0;
    for (std::size_t token = end; token-- > begin;)
      out.to_go[token] = carry += in.counts(token) ? double{in.rewards[token]} : 0.0;
    accumulate_weights(in, begin, end, out.weight);
  }
  return out;
}

// Calls use(token, step) for each unmasked token of a sequence; returns their number.
template <class Use>
std::size_t for_each_step(const AdvantageInput& in, int64_t sequence, bool compact, Use use) {
  const auto [begin, end] = in.range(sequence);
  std::size_t counted = 0;
  for (std::size_t token = begin; token < end; ++token)
    if (in.counts(token)) {
      use(token, compact ? counted : token - begin);
      ++counted;
    }
  return counted;
}

// The two largest numbers of unmasked tokens in a group.
struct Longest {
  std::size_t first = 0, second = 0;
  int64_t sequence = -1;  // the sequence with `first` tokens

  void add(int64_t candidate, std::size_t length) {
    if (sequence < 0 || length > first) {
      second = first;
      first = length;
      sequence = candidate;
    } else {
      second = std::max(second, length);
    }
  }
};

// B_t = sum G W / (sum W + epsilon) of one group, stored in place of the weighted sums.
class Baseline {
 public:
  void start() { numerator_.clear(), divisor_.clear(); }
  void add(std::size_t step, double to_go, double weight) {
    if (step >= numerator_.size()) numerator_.resize(step + 1, 0.0), divisor_.resize(step + 1, 0.0);
    numerator_[step] += to_go * weight;
    divisor_[step] += weight;
  }
  double at(std::size_t step, double epsilon) const { return numerator_[step] / (divisor_[step] + epsilon); }

 private:
  std::vector<double> numerator_, divisor_;
};

void subtract_baseline(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out,
                       bool compact) {
  const double epsilon = parameters.number("epsilon");
  const Weighted weighted = weigh(in);
  const GroupIndex index = index_groups(in.groups);
  std::fill(out.advantages.begin(), out.advantages.end(), 0.0f);
  std::transform(weighted.to_go.begin(), weighted.to_go.end(), out.returns.begin(),
                 [](double x) { return static_cast<float>(x); });
  Baseline baseline;
  for (int64_t g = 0; g < index.count(); ++g) {
    const std::span<const int64_t> sequences = index.group(g);
    Longest longest;
    std::size_t compared = 0;  // sequences with an unmasked token
    baseline.start();
    for (const int64_t sequence : sequences) {
      const auto add = [&](std::size_t token, std::size_t step) {
        baseline.add(step, weighted.to_go[token], weighted.weight[token]);
      };
      const std::size_t steps = for_each_step(in, sequence, compact, add);
      compared += steps > 0 ? 1 : 0;
      longest.add(sequence, steps);
    }
    // Beyond the second longest sequence, the baseline of the longest one would equal its own return.
    const bool cut = parameters.flag("handle_zero_tail") && longest.first > longest.second;
    for (const int64_t sequence : sequences)
      for_each_step(in, sequence, compact, [&](std::size_t token, std::size_t step) {
        const bool none = compared == 1 || (cut && sequence == longest.sequence && step >= longest.second);
        const double subtracted = none ? 0.0 : baseline.at(step, epsilon);
        out.advantages[token] = static_cast<float>(weighted.to_go[token] - subtracted);
      });
  }
}

}  // namespace

void optimal_token_baseline(const AdvantageInput& in, const ParameterValues& parameters, const AdvantageOutput& out) {
  subtract_baseline(in, parameters, out, /*compact=*/false);
}

void tir_optimal_token_baseline(const AdvantageInput& in, const ParameterValues& parameters,
                                const AdvantageOutput& out) {
  subtract_baseline(in, parameters, out, /*compact=*/true);
}

}  // namespace troupe
