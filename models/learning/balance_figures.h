#pragma once
// BalanceFigures: how even the micro-batches of an update of a token run are. Plain data.

#include <algorithm>

namespace troupe {

// Tokens of the micro-batches, and what they would be if as many were cut by the number of answers, in the order of
// training.
struct BalanceFigures {
  double count = 0;  // micro-batches
  double sum = 0;    // of their tokens
  double least = 0, most = 0;
  double least_by_answers = 0, most_by_answers = 0;

  double mean() const { return count > 0 ? sum / count : 0; }
  // Adds those of another minibatch.
  void merge(const BalanceFigures& other) {
    if (other.count == 0) return;
    const bool first = count == 0;
    count += other.count;
    sum += other.sum;
    least = first ? other.least : std::min(least, other.least);
    most = std::max(most, other.most);
    least_by_answers = first ? other.least_by_answers : std::min(least_by_answers, other.least_by_answers);
    most_by_answers = std::max(most_by_answers, other.most_by_answers);
  }
};

}  // namespace troupe
