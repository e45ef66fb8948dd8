#include "actors/experience/answers/pass_at.h"

namespace troupe {

double pass_at_k(uint64_t answers, uint64_t right, uint64_t k) {
  const uint64_t wrong = answers - right;
  if (wrong < k) return 1;
  double none = 1;  // the probability that all k are wrong: (wrong over k) / (answers over k)
  for (uint64_t i = wrong + 1; i <= answers; ++i) none *= 1 - static_cast<double>(k) / static_cast<double>(i);
  return 1 - none;
}

PassAt::PassAt(uint64_t answers) {
  for (uint64_t k = 1; k < answers; k *= 2) sums_.push_back({.k = k});
  sums_.push_back({.k = answers});
}

void PassAt::add(uint64_t answers, uint64_t right) {
  for (Sum& sum : sums_) {
    if (sum.k > answers) continue;
    sum.count += sum.k == 1 ? answers : 1;
    sum.passed += sum.k == 1 ? static_cast<double>(right) : pass_at_k(answers, right, sum.k);
  }
}

PassAtK PassAt::result() const {
  PassAtK result;
  for (const Sum& sum : sums_)
    result.emplace_back(sum.k, sum.count == 0 ? kUnknown : sum.passed / static_cast<double>(sum.count));
  return result;
}

}  // namespace troupe
