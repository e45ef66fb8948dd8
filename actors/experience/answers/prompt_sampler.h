#pragma once
// PromptSampler: which prompt of a list a worker asks next, if those that it answers wrong more often come more often
// (task.sampling failure_weighted). A plain value; one thread.

#include <cstdint>
#include <string>
#include <vector>

#include "actors/messages/experience.h"
#include "runtime/base/rng.h"

namespace troupe {

class PromptSampler {
 public:
  // Weights and rates are in units of 1 / kOne, so that sums are exact. A prompt has the weight kLeast + its rate of
  // failure: one that is always answered right still comes, at a seventeenth of the rate of one that never is.
  static constexpr uint64_t kOne = 1 << 16, kLeast = kOne / 16;

  // So many prompts, none of them asked yet: each has the largest weight.
  explicit PromptSampler(uint64_t prompts);

  // The number of a prompt, drawn by the weights.
  uint64_t draw(Rng& rng) const;
  // `right` of the `answers` to this prompt were right; at least one answer. Its rate of failure is the mean of the
  // last times, of which each counts half as much as the next.
  void record(uint64_t prompt, uint64_t answers, uint64_t right);
  PromptFigures figures() const { return figures_; }

  // The state as bytes, and back. load() throws std::runtime_error, which begins with `whose`, if it is another one.
  std::string save() const;
  void load(const std::string& bytes, const std::string& whose);

 private:
  static constexpr uint8_t kAsked = 1, kSolved = 2, kEverRight = 4;  // flags of a prompt

  uint64_t weight(uint64_t prompt) const { return kLeast + failures_[prompt]; }
  void add(uint64_t prompt, int64_t change);

  std::vector<uint32_t> failures_;  // rate of each
  std::vector<uint8_t> flags_;
  std::vector<uint64_t> sums_;  // of weights: a Fenwick tree
  uint64_t total_ = 0;
  PromptFigures figures_;
};

}  // namespace troupe
