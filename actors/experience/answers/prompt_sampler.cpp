#include "actors/experience/answers/prompt_sampler.h"

#include <bit>
#include <stdexcept>

#include "actors/experience/common/state_bytes.h"
#include "runtime/base/errors.h"

namespace troupe {

PromptSampler::PromptSampler(uint64_t prompts)
    : failures_(prompts, static_cast<uint32_t>(kOne)), flags_(prompts), sums_(prompts + 1) {
  TROUPE_CHECK(prompts > 0, prompts);
  for (uint64_t i = 0; i < prompts; ++i) add(i, static_cast<int64_t>(weight(i)));
}

void PromptSampler::add(uint64_t prompt, int64_t change) {
  total_ += static_cast<uint64_t>(change);
  for (uint64_t i = prompt + 1; i < sums_.size(); i += i & (~i + 1)) sums_[i] += static_cast<uint64_t>(change);
}

uint64_t PromptSampler::draw(Rng& rng) const {
  uint64_t left = rng.below(total_), before = 0;  // prompts before the one that is drawn
  for (uint64_t step = std::bit_floor(sums_.size() - 1); step > 0; step /= 2) {
    const uint64_t next = before + step;
    if (next >= sums_.size() || sums_[next] > left) continue;
    left -= sums_[next];
    before = next;
  }
  return before;
}

void PromptSampler::record(uint64_t prompt, uint64_t answers, uint64_t right) {
  TROUPE_CHECK(prompt < flags_.size() && answers > 0 && right <= answers, prompt, flags_.size(), answers, right);
  const uint64_t before = failures_[prompt], now = kOne * (answers - right) / answers;
  const uint8_t old_flags = flags_[prompt];
  const bool first = (old_flags & kAsked) == 0;
  const uint64_t rate = first ? now : (before + now) / 2;
  failures_[prompt] = static_cast<uint32_t>(rate);
  add(prompt, static_cast<int64_t>(rate) - static_cast<int64_t>(before));
  flags_[prompt] = static_cast<uint8_t>(kAsked | (right == answers ? kSolved : 0) |
                                        (right > 0 ? kEverRight : old_flags & kEverRight));
  const auto has = [&](uint8_t flags, uint8_t flag) { return uint64_t{(flags & flag) != 0}; };
  figures_.asked += first ? 1 : 0;
  figures_.success += kOne - rate - (first ? 0 : kOne - before);
  figures_.solved += has(flags_[prompt], kSolved) - has(old_flags, kSolved);
  figures_.never_right += (first ? 1u : 0u) - (has(flags_[prompt], kEverRight) - has(old_flags, kEverRight));
}

std::string PromptSampler::save() const { return to_bytes(failures_, flags_, figures_); }

void PromptSampler::load(const std::string& bytes, const std::string& whose) {
  PromptSampler read(failures_.size());
  from_bytes(bytes, whose, read.failures_, read.flags_, read.figures_);
  if (read.failures_.size() != failures_.size() || read.flags_.size() != flags_.size())
    throw std::runtime_error(whose + ": its saved state is of " + std::to_string(read.failures_.size()) +
                             " prompts, and the task has " + std::to_string(failures_.size()));
  for (uint64_t i = 0; i < failures_.size(); ++i)
    read.add(i, static_cast<int64_t>(read.failures_[i]) - static_cast<int64_t>(kOne));
  *this = read;
}

}  // namespace troupe
