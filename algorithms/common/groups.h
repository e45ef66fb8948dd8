#pragma once
// Groups of sequences (the answers to one prompt): which groups still carry a learning signal, and which sequences to
// train on again. Pure functions; any thread.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe {

// The sequences of every group: group g holds sequences[starts[g]] .. sequences[starts[g + 1] - 1], in ascending order.
// Groups are ordered by id.
struct GroupIndex {
  std::vector<int64_t> sequences;
  std::vector<int64_t> starts;

  int64_t count() const { return static_cast<int64_t>(starts.size()) - 1; }
  std::span<const int64_t> group(int64_t g) const {
    const auto at = static_cast<std::size_t>(g);
    return std::span(sequences).subspan(static_cast<std::size_t>(starts[at]),
                                        static_cast<std::size_t>(starts[at + 1] - starts[at]));
  }
};

// ids: [B], arbitrary numbers.
GroupIndex index_groups(std::span<const int64_t> ids);

// Whether to keep each sequence: 0 for all sequences of a group in which the metric is the same everywhere (DAPO's
// dynamic sampling, Yu et al. 2025, arXiv:2503.14476, section 3.2). A group with one sequence is kept (as in verl,
// github.com/volcengine/verl), a group with a number that is not finite is not. metric, ids: [B].
std::vector<uint8_t> groups_with_spread(std::span<const float> metric, std::span<const int64_t> ids);

// The sequences of the first `max_groups` groups that are kept, counted by first appearance; of all of them when
// max_groups < 0. In ascending order.
std::vector<int64_t> filter_groups(std::span<const float> metric, std::span<const int64_t> ids,
                                   int64_t max_groups = -1);

// How PF-PPO weights sequences by their score (Shen and Zhang 2024, "Policy Filtration for RLHF", arXiv:2409.06957).
enum class ResampleWeight : uint8_t { pow = 0, max_min = 1, max_random = 2 };
// Throws ConfigError with the nearest known name unless it is pow, max_min or max_random.
ResampleWeight find_resample_weight(std::string_view name);

// pow: |s|^power. max_min: 1 for the largest and the smallest score, else 0. max_random: 0.4 for the largest, else 0.1.
// All plus 1e-8. scores: [B]. Throws InvariantError for a score that is not finite.
std::vector<double> resample_weights(std::span<const float> scores, ResampleWeight weight, double power = 2);

// `count` sequences, drawn with replacement with these weights. The same seed gives the same sequences on every
// machine. Throws InvariantError when a weight is negative or not finite, or when all are 0 and count > 0.
std::vector<int64_t> draw_sequences(std::span<const double> weights, int64_t count, uint64_t seed);

}  // namespace troupe
