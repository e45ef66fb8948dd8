#include "tasks/task.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/weights/weights.h"
#include "tasks/answer_match.h"

namespace troupe {

namespace {

constexpr uint64_t kHeldOutOneIn = 8;
// make_task() has checked that each split has at least about 1 prompt of 100, so that this many are never needed.
constexpr int kMaxProposals = 100'000;

}  // namespace

Split split_of(std::string_view text) {
  return derive_key(0, text) % kHeldOutOneIn == 0 ? Split::held_out : Split::train;
}

Prompt Task::draw(Rng& rng, Split split) const {
  for (int i = 0; i < kMaxProposals; ++i) {
    Prompt prompt = propose(rng);
    if (split_of(prompt.text) == split) return prompt;
  }
  TROUPE_CHECK(false, kMaxProposals, static_cast<int>(split));
  return {};
}

Prompt Task::prompt(uint64_t key, uint64_t n, Split split) const {
  Rng rng(derive_key(key, "prompt", n));
  return draw(rng, split);
}

Prompt Task::listed_prompt(uint64_t number, Split split) const {
  TROUPE_CHECK(false, "the task generates its prompts", number, static_cast<int>(split));
  return {};
}

std::vector<Prompt> Task::held_out(uint64_t key, int64_t most) const {
  // So many draws in a row that gave no other prompt: with n prompts, one is missed with a probability of e^-20.
  constexpr uint64_t kDrawsOfEach = 20, kFewestDraws = 1000;
  std::vector<Prompt> prompts;
  std::unordered_set<std::string> texts;
  uint64_t in_vain = 0;
  for (uint64_t i = 0; static_cast<int64_t>(prompts.size()) < most; ++i) {
    Rng rng(derive_key(key, "prompt", i));
    Prompt prompt = draw(rng, Split::held_out);
    if (texts.insert(prompt.text).second) {
      prompts.push_back(std::move(prompt));
      in_vain = 0;
    } else if (++in_vain > kFewestDraws + kDrawsOfEach * prompts.size()) {
      break;
    }
  }
  return prompts;
}

void Task::check_answers(const AnswerProblem& problem) const {
  constexpr int kPrompts = 100;
  Rng rng(derive_key(0, "tasks/check_answers"));
  for (int i = 0; i < kPrompts; ++i) {
    const Prompt prompt = propose(rng);
    if (const std::string why = problem(prompt, short_answer(prompt)); !why.empty())
      throw ConfigError("task.params: a prompt is \"" + printable(prompt.text) + "\", but " + why);
  }
}

uint64_t Task::data_hash() const {
  constexpr int kPrompts = 100;
  Rng rng(derive_key(0, "tasks/data_hash"));
  Checksum hash;
  for (int i = 0; i < kPrompts; ++i) add_prompt(hash, propose(rng));
  return hash.value();
}

Score Task::score(const Prompt& prompt, std::string_view answer) const {
  const std::string_view text = trimmed(answer);
  if (text.empty() || text.size() > longest_scored_answer() || !is_right(prompt, text)) return {};
  return {.reward = 1, .right = true};
}

void add_prompt(Checksum& hash, const Prompt& prompt) {
  const auto add = [&](const std::string& text) {
    const uint64_t size = text.size();
    hash.update(&size, sizeof size);
    hash.update(text.data(), text.size());
  };
  add(prompt.text);
  add(prompt.truth);
  add(prompt.demonstration);
  if (!prompt.columns.empty()) add(prompt.columns);
}

void require_both_splits(const Task& task, const std::string& path) {
  constexpr int kPrompts = 1000, kFewest = 10;
  Rng rng(derive_key(0, "tasks/both_splits"));
  int held_out = 0;
  for (int i = 0; i < kPrompts; ++i) held_out += split_of(task.propose(rng).text) == Split::held_out ? 1 : 0;
  if (held_out < kFewest || held_out > kPrompts - kFewest)
    throw ConfigError(path + ": gives " + std::to_string(held_out) + " held-out prompts of " +
                      std::to_string(kPrompts) + ", expected at least " + std::to_string(kFewest) +
                      " of each split; choose parameters with more different prompts");
}

std::string characters_of(std::string_view text) {
  std::string characters(text);
  std::ranges::sort(characters);
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  return characters;
}

}  // namespace troupe
