#include "actors/experience/answers/generation_scheduler.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

GenerationScheduler::GenerationScheduler(const Generator& generator, GenerationOptions options)
    : options_(std::move(options)) {
  TROUPE_CHECK(options_.prefill_tokens >= 1, options_.prefill_tokens);
  // The last one is used first.
  for (int64_t i = generator.prompt_slots(); i-- > 0;) free_prompts_.push_back(static_cast<int32_t>(i));
  for (int64_t i = generator.answer_slots(); i-- > 0;) free_answers_.push_back(static_cast<int32_t>(i));
}

void GenerationScheduler::add(GenerationRequest request) {
  TROUPE_CHECK(!request.prompt.empty() && !request.keys.empty() && request.max_tokens >= 1, request.prompt.size(),
               request.keys.size(), request.max_tokens);
  waiting_.push_back(std::move(request));
}

void GenerationScheduler::forget(uint64_t ticket) {
  std::erase_if(waiting_, [&](const GenerationRequest& request) { return request.ticket == ticket; });
  std::erase_if(active_, [&](const std::unique_ptr<Active>& active) {
    if (active->request.ticket != ticket) return false;
    release(*active);
    return true;
  });
}

std::vector<uint64_t> GenerationScheduler::tickets() const {
  std::vector<uint64_t> result;
  for (const auto& active : active_) result.push_back(active->request.ticket);
  return result;
}

bool GenerationScheduler::ends(int32_t token) const {
  return std::ranges::find(options_.end_tokens, token) != options_.end_tokens.end();
}

// Whether the last token completes the stop text. A token has at least one byte, except for special ones, so that the
// text is in the last tokens.
bool GenerationScheduler::has_stop(std::span<const int32_t> answer) const {
  constexpr size_t kSpecial = 16;  // as many of them may be in between
  if (options_.stop.empty()) return false;
  const size_t count = std::min(answer.size(), options_.stop.size() + kSpecial);
  return options_.text_of(answer.last(count)).find(options_.stop) != std::string::npos;
}

void GenerationScheduler::release(Active& active) {
  free_prompts_.push_back(active.slot);
  for (Answer& answer : active.answers) {
    if (answer.slot < 0) continue;
    free_answers_.push_back(std::exchange(answer.slot, -1));
    --slots_in_use_;
  }
}

void GenerationScheduler::admit() {
  while (!waiting_.empty() && !free_prompts_.empty()) {
    auto active = std::make_unique<Active>();
    active->request = std::move(waiting_.front());
    waiting_.pop_front();
    active->slot = free_prompts_.back();
    free_prompts_.pop_back();
    active->answers.resize(active->request.keys.size());
    active_.push_back(std::move(active));
  }
}

// Gives slots to answers that have their first token, the oldest request first.
void GenerationScheduler::give_slots() {
  for (const auto& active : active_) {
    if (!active->started()) continue;
    for (Answer& answer : active->answers) {
      if (answer.done || answer.slot >= 0) continue;
      if (free_answers_.empty()) return;
      answer.slot = free_answers_.back();
      free_answers_.pop_back();
      ++slots_in_use_;
    }
  }
}

void GenerationScheduler::plan(std::span<const uint64_t> only) {
  parts_.clear();
  uses_.clear();
  draws_.clear();
  int64_t prefill = options_.prefill_tokens;
  for (const auto& active : active_) {
    const GenerationRequest& request = active->request;
    if (!only.empty() && std::ranges::find(only, request.ticket) == only.end()) continue;
    const auto prompt = static_cast<int64_t>(request.prompt.size());
    if (!active->started()) {
      const int64_t count = std::min(prefill, prompt - active->computed);
      if (count == 0) continue;
      prefill -= count;
      std::vector<TokenDraw>& draws = draws_.emplace_back();
      if (active->computed + count == prompt)
        for (size_t i = 0; i < request.keys.size(); ++i) draws.push_back({request.keys[i], 0, request.is_greedy(i)});
      parts_.push_back(
          {.prompt = active->slot,
           .tokens =
               std::span(request.prompt).subspan(static_cast<size_t>(active->computed), static_cast<size_t>(count)),
           .before = active->computed,
           .draws = draws});
      uses_.push_back({active.get(), -1, count});
      continue;
    }
    for (size_t i = 0; i < active->answers.size(); ++i) {
      const Answer& answer = active->answers[i];
      if (answer.slot < 0) continue;
      const auto known = static_cast<int64_t>(answer.result.tokens.size());
      const std::vector<TokenDraw>& draws =
          draws_.emplace_back(std::vector<TokenDraw>{{request.keys[i], known, request.is_greedy(i)}});
      parts_.push_back({.prompt = active->slot,
                        .answer = answer.slot,
                        .tokens = std::span(answer.result.tokens).last(1),
                        .before = known - 1,
                        .prompt_tokens = prompt,
                        .draws = draws});
      uses_.push_back({active.get(), static_cast<int64_t>(i), 1});
    }
  }
}

void GenerationScheduler::append(Answer& answer, const GenerationRequest& request, const DrawnToken& drawn,
                                 uint64_t version) {
  answer.result.tokens.push_back(drawn.token);
  answer.result.log_probs.push_back(drawn.log_prob);
  answer.result.version.push_back(version);
  if (ends(drawn.token))
    answer.result.finish = Finish::stop;
  else if (has_stop(answer.result.tokens))
    answer.result.finish = Finish::text;
  else if (static_cast<int64_t>(answer.result.tokens.size()) == request.max_tokens)
    answer.result.finish = Finish::length;
  else
    return;
  answer.done = true;
  if (answer.slot < 0) return;
  free_answers_.push_back(std::exchange(answer.slot, -1));
  --slots_in_use_;
}

std::vector<Generation> GenerationScheduler::step(Generator& generator, uint64_t version,
                                                  std::span<const uint64_t> only) {
  admit();
  give_slots();
  plan(only);
  last_rows_ = 0;
  if (parts_.empty()) return {};
  const std::vector<DrawnToken> drawn = generator.compute(parts_);
  for (const GeneratorPart& part : parts_) last_rows_ += static_cast<int64_t>(part.tokens.size());
  size_t next = 0;
  for (size_t i = 0; i < uses_.size(); ++i) {
    Active& active = *uses_[i].active;
    if (uses_[i].answer < 0) active.computed += uses_[i].tokens;
    for (size_t d = 0; d < draws_[i].size(); ++d) {
      const size_t answer = uses_[i].answer < 0 ? d : static_cast<size_t>(uses_[i].answer);
      append(active.answers[answer], active.request, drawn.at(next++), version);
    }
  }
  TROUPE_CHECK(next == drawn.size(), next, drawn.size());

  std::vector<Generation> result;
  std::erase_if(active_, [&](const std::unique_ptr<Active>& active) {
    if (!active->started() || !std::ranges::all_of(active->answers, &Answer::done)) return false;
    release(*active);
    Generation& done = result.emplace_back();
    done.ticket = active->request.ticket;
    for (Answer& answer : active->answers) done.answers.push_back(std::move(answer.result));
    return true;
  });
  return result;
}

}  // namespace troupe
