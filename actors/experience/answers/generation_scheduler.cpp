#include "actors/experience/answers/generation_scheduler.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

bool ends(const GenerationOptions& options, int32_t token) {
  return std::ranges::find(options.end_tokens, token) != options.end_tokens.end();
}

// Whether the last token completes the stop text. A token has at least one byte, except for special ones, so that the
// text is in the last tokens.
bool has_stop(const GenerationOptions& options, std::span<const int32_t> answer) {
  constexpr size_t kSpecial = 16;  // as many of them may be in between
  if (options.stop.empty()) return false;
  const size_t count = std::min(answer.size(), options.stop.size() + kSpecial);
  return options.text_of(answer.last(count)).find(options.stop) != std::string::npos;
}

// Unless they may be kept, the keys and values from which a token is drawn are those of the weights that draw it.
void check_cells(const GenerationOptions& options, std::span<const DrawnToken> drawn, uint64_t version) {
  if (options.on_new_weights == OnNewWeights::keep) return;
  for (const auto& [token, log_prob, cells] : drawn)
    TROUPE_CHECK(cells.oldest == cells.newest && cells.newest.number == version, cells.oldest.text(),
                 cells.newest.text(), version);
}

}  // namespace

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
  TROUPE_CHECK(request.history.empty() || request.history.size() == request.keys.size(), request.history.size(),
               request.keys.size());
  TROUPE_CHECK(std::ranges::none_of(request.history, &std::vector<int32_t>::empty), "an empty history");
  waiting_.push_back(std::move(request));
}

void GenerationScheduler::forget(uint64_t ticket) {
  std::erase_if(waiting_, [&](const GenerationRequest& request) { return request.ticket == ticket; });
  const auto drop = [&](const std::unique_ptr<Active>& active) {
    if (active->request.ticket != ticket) return false;
    release(*active);
    return true;
  };
  std::erase_if(active_, drop);
  std::erase_if(done_, drop);
}

void GenerationScheduler::forget_done() {
  for (const auto& done : done_) release(*done);
  done_.clear();
}

std::vector<uint64_t> GenerationScheduler::tickets() const {
  std::vector<uint64_t> result;
  for (const auto& active : active_) result.push_back(active->request.ticket);
  return result;
}

void GenerationScheduler::release(Active& active) {
  free_prompts_.push_back(active.slot);
  for (Answer& answer : active.answers) {
    if (answer.slot < 0) continue;
    free_answers_.push_back(std::exchange(answer.slot, -1));
    if (!answer.done) --slots_in_use_;
  }
}

// The answer has its last token.
void GenerationScheduler::end(Answer& answer) {
  answer.done = true;
  if (answer.slot < 0) return;
  --slots_in_use_;
  if (!options_.turns) free_answers_.push_back(std::exchange(answer.slot, -1));
}

std::optional<int32_t> GenerationScheduler::take_prompt_slot() {
  if (free_prompts_.empty() && !done_.empty()) {
    release(*done_.front());
    done_.pop_front();
  }
  if (free_prompts_.empty()) return std::nullopt;
  const int32_t slot = free_prompts_.back();
  free_prompts_.pop_back();
  return slot;
}

std::optional<int32_t> GenerationScheduler::take_answer_slot() {
  if (!free_answers_.empty()) {
    const int32_t slot = free_answers_.back();
    free_answers_.pop_back();
    return slot;
  }
  for (const auto* requests : {&done_, &active_})
    for (const auto& request : *requests)
      for (Answer& answer : request->answers)
        if (answer.done && answer.slot >= 0) return std::exchange(answer.slot, -1);
  return std::nullopt;
}

std::unique_ptr<GenerationScheduler::Active> GenerationScheduler::take_kept(const GenerationRequest& request) {
  const auto found = std::ranges::find_if(done_, [&](const std::unique_ptr<Active>& done) {
    return !request.history.empty() && done->request.ticket == request.before && done->request.prompt == request.prompt;
  });
  if (found == done_.end()) return nullptr;
  std::unique_ptr<Active> kept = std::move(*found);
  done_.erase(found);
  return kept;
}

void GenerationScheduler::take_over(Active& active, Active& kept) {
  active.slot = kept.slot;
  active.computed = kept.computed;
  active.version = kept.version;
  auto from = kept.answers.begin();
  for (Answer& answer : active.answers) {
    const auto same = std::find_if(from, kept.answers.end(), [&](const Answer& before) {
      return before.slot >= 0 && before.tokens.size() <= answer.tokens.size() &&
             std::equal(before.tokens.begin(), before.tokens.end(), answer.tokens.begin());
    });
    if (same == kept.answers.end()) continue;
    from = same + 1;
    answer.slot = std::exchange(same->slot, -1);
    answer.computed = same->computed;
    reused_ += answer.computed;
    ++slots_in_use_;
  }
  for (const Answer& rest : kept.answers)
    if (rest.slot >= 0) free_answers_.push_back(rest.slot);
}

void GenerationScheduler::admit() {
  while (!held_ && !waiting_.empty()) {
    const std::unique_ptr<Active> kept = take_kept(waiting_.front());
    const std::optional<int32_t> slot = kept ? kept->slot : take_prompt_slot();
    if (!slot) return;
    Active& active = *active_.emplace_back(std::make_unique<Active>());
    active.request = std::move(waiting_.front());
    waiting_.pop_front();
    active.slot = *slot;
    active.answers.resize(active.request.keys.size());
    for (size_t i = 0; i < active.request.history.size(); ++i)
      active.answers[i].tokens = std::move(active.request.history[i]);
    if (kept) take_over(active, *kept);
  }
}

// Gives slots to answers whose prompt is computed, the oldest request first.
void GenerationScheduler::give_slots() {
  for (const auto& active : active_) {
    if (!active->takes_slots()) continue;
    for (Answer& answer : active->answers) {
      if (answer.done || answer.slot >= 0) continue;
      const std::optional<int32_t> slot = take_answer_slot();
      if (!slot) return;
      answer.slot = *slot;
      answer.computed = 0;
      ++slots_in_use_;
    }
  }
}

bool GenerationScheduler::any_begun() const {
  return std::ranges::any_of(active_, [](const auto& active) { return active->begun(); });
}

bool GenerationScheduler::recomputing() const {
  return std::ranges::any_of(active_, [](const auto& active) { return active->recomputing; });
}

void GenerationScheduler::plan(uint64_t version, std::span<const uint64_t> only) {
  parts_.clear();
  uses_.clear();
  draws_.clear();
  prefill_ = options_.prefill_tokens;
  for (const auto& active : active_) {
    if (!only.empty() && std::ranges::find(only, active->request.ticket) == only.end()) continue;
    if (held_ && !active->begun()) continue;
    renew(*active, version);
    if (!active->has_prompt()) {
      plan_prompt(*active);
      continue;
    }
    for (size_t i = 0; i < active->answers.size(); ++i)
      if (active->answers[i].slot >= 0 && !active->answers[i].done) plan_answer(*active, i);
  }
}

// Drops the keys and values of a request that older weights have made, if they are to be computed anew.
void GenerationScheduler::renew(Active& active, uint64_t version) {
  const uint64_t before = std::exchange(active.version, version);
  if (!active.begun() || before == version || options_.on_new_weights == OnNewWeights::keep) return;
  TROUPE_CHECK(options_.on_new_weights == OnNewWeights::recompute, before, version);
  active.recomputing = true;
  active.computed = 0;
  for (Answer& answer : active.answers) {
    answer.computed = 0;
    if (answer.done && answer.slot >= 0) free_answers_.push_back(std::exchange(answer.slot, -1));
  }
}

void GenerationScheduler::plan_prompt(Active& active) {
  const GenerationRequest& request = active.request;
  const int64_t left = static_cast<int64_t>(request.prompt.size()) - active.computed;
  const int64_t count = std::min(prefill_, left);
  if (count == 0) return;
  prefill_ -= count;
  std::vector<TokenDraw>& draws = draws_.emplace_back();
  if (count == left && !active.drawn && request.history.empty())
    for (size_t i = 0; i < request.keys.size(); ++i) draws.push_back({request.keys[i], 0, request.is_greedy(i)});
  parts_.push_back(
      {.prompt = active.slot,
       .tokens = std::span(request.prompt).subspan(static_cast<size_t>(active.computed), static_cast<size_t>(count)),
       .before = active.computed,
       .draws = draws});
  uses_.push_back({&active, -1, count, active.recomputing ? count : 0});
}

// The last token of an answer, from which the next one is drawn, and before it those without keys and values.
void GenerationScheduler::plan_answer(Active& active, size_t index) {
  const GenerationRequest& request = active.request;
  const Answer& answer = active.answers[index];
  const int64_t behind = answer.behind(), some = std::min(prefill_, behind);
  if (behind > 0 && some == 0) return;
  prefill_ -= some;
  std::vector<TokenDraw>& draws = draws_.emplace_back();
  if (some == behind)
    draws.push_back({request.keys[index], static_cast<int64_t>(answer.result.tokens.size()), request.is_greedy(index)});
  const int64_t count = some + (some == behind ? 1 : 0);
  parts_.push_back(
      {.prompt = active.slot,
       .answer = answer.slot,
       .tokens = std::span(answer.tokens).subspan(static_cast<size_t>(answer.computed), static_cast<size_t>(count)),
       .before = answer.computed,
       .prompt_tokens = static_cast<int64_t>(request.prompt.size()),
       .draws = draws});
  uses_.push_back({&active, static_cast<int64_t>(index), count, active.recomputing ? some : 0});
}

void GenerationScheduler::note_computed(const Use& use) {
  last_rows_ += use.tokens;
  last_recomputed_ += use.again;
  (use.answer < 0 ? use.active->computed : use.active->answers[static_cast<size_t>(use.answer)].computed) += use.tokens;
}

void GenerationScheduler::append(Answer& answer, const GenerationRequest& request, const DrawnToken& drawn,
                                 uint64_t version) {
  answer.tokens.push_back(drawn.token);
  answer.result.tokens.push_back(drawn.token);
  answer.result.log_probs.push_back(drawn.log_prob);
  answer.result.version.push_back(version);
  if (ends(options_, drawn.token))
    answer.result.finish = Finish::stop;
  else if (has_stop(options_, answer.result.tokens))
    answer.result.finish = Finish::text;
  else if (static_cast<int64_t>(answer.result.tokens.size()) == request.max_tokens)
    answer.result.finish = Finish::length;
  else
    return;
  end(answer);
}

std::vector<Generation> GenerationScheduler::step(Generator& generator, uint64_t version,
                                                  std::span<const uint64_t> only) {
  admit();
  give_slots();
  plan(version, only);
  last_rows_ = last_recomputed_ = 0;
  if (parts_.empty()) return {};
  const std::vector<DrawnToken> drawn = generator.compute(parts_);
  check_cells(options_, drawn, version);
  size_t next = 0;
  for (size_t i = 0; i < uses_.size(); ++i) {
    Active& active = *uses_[i].active;
    note_computed(uses_[i]);
    for (size_t d = 0; d < draws_[i].size(); ++d) {
      const size_t answer = uses_[i].answer < 0 ? d : static_cast<size_t>(uses_[i].answer);
      append(active.answers[answer], active.request, drawn.at(next++), version);
      active.drawn = true;
    }
  }
  TROUPE_CHECK(next == drawn.size(), next, drawn.size());
  for (const auto& active : active_)
    active->recomputing &= !active->has_prompt() || std::ranges::any_of(active->answers, [](const Answer& answer) {
      return answer.slot >= 0 && !answer.done && answer.behind() > 0;
    });
  return take_done();
}

std::vector<Generation> GenerationScheduler::take_done() {
  std::vector<Generation> result;
  for (std::unique_ptr<Active>& active : std::exchange(active_, {})) {
    if (!active->drawn || !std::ranges::all_of(active->answers, &Answer::done)) {
      active_.push_back(std::move(active));
      continue;
    }
    Generation& done = result.emplace_back();
    done.ticket = active->request.ticket;
    for (Answer& answer : active->answers) done.answers.push_back(std::move(answer.result));
    options_.turns ? done_.push_back(std::move(active)) : release(*active);
  }
  return result;
}

}  // namespace troupe
