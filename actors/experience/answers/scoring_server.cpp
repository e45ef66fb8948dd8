#include "actors/experience/answers/scoring_server.h"

#include <algorithm>
#include <string>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/token_run.h"
#include "models/lm/reward_model.h"

namespace troupe {

namespace {

PromptAnswers answers_of(const ScoringRequest& request) {
  return {request.prompt.view<int32_t>(), request.tokens.view<int32_t>(), request.offsets.view<int64_t>(),
          request.messages.ids.view<int32_t>(), request.messages.lengths.view<int32_t>()};
}

int64_t tokens_of(const ScoringRequest& request) {
  return request.prompt.size() + request.tokens.size() + request.messages.ids.size();
}

// All that follows the prompt, for each answer.
std::vector<std::vector<int32_t>> with_messages(const PromptAnswers& all) {
  std::vector<std::vector<int32_t>> answers;
  auto message = all.messages.begin();
  for (size_t a = 0; a + 1 < all.offsets.size(); ++a) {
    std::vector<int32_t>& ids = answers.emplace_back();
    for (auto t = static_cast<size_t>(all.offsets[a]); t < static_cast<size_t>(all.offsets[a + 1]); ++t) {
      const auto end = message + (all.message_lengths.empty() ? 0 : all.message_lengths[t]);
      ids.insert(ids.end(), message, end);
      ids.push_back(all.tokens[t]);
      message = end;
    }
  }
  return answers;
}

std::vector<float> model_scores(RewardModel& model, const ScoringRequest& request) {
  const PromptAnswers all = answers_of(request);
  return model.score(all.prompt, with_messages(all));
}

}  // namespace

ScoringServer::ScoringServer(const RunSpec& run, const RunFactories& factories)
    : run_(run),
      reference_(run.config.reference.by_scorers()
                     ? factories.make_reference(run.config.generation.temperature, run.config.scorers.threads)
                     : nullptr) {}

Misfit ScoringServer::misfit(const RequestBody& request) const {
  const auto* scoring = std::get_if<ScoringRequest>(&request);
  if (scoring == nullptr) return "the request is not one for scores";
  return troupe::misfit(run_.config, *run_.tokens, *scoring);
}

void ScoringServer::accept(uint64_t ticket, ClientId client, const RequestBody& request, Clock::time_point now) {
  asked_.emplace(ticket, Asked{client, std::get<ScoringRequest>(request), now});
}

void ScoringServer::forget_worker(uint64_t worker) {
  std::erase_if(asked_, [&](const auto& entry) { return entry.second.client.worker == worker; });
}

void ScoringServer::load(const WeightsPtr& weights, Clock::time_point /*now*/) {
  if (reference_) reference_->load(*weights);
  version_ = weights->version;
}

std::optional<Server::Clock::time_point> ScoringServer::due() const {
  return asked_.empty() ? std::nullopt : std::optional(Clock::time_point::min());
}

std::vector<uint64_t> ScoringServer::batch() const {
  std::vector<uint64_t> tickets;
  int64_t tokens = 0;
  for (const auto& [ticket, asked] : asked_) {
    tokens += tokens_of(asked.request);
    if (!tickets.empty() && tokens > run_.config.scorers.batch_tokens) break;
    tickets.push_back(ticket);
  }
  return tickets;
}

void ScoringServer::run_due(ServerPort& port) {
  if (!asked_.empty()) answer(port, batch());
}

std::vector<ScoringReply> ScoringServer::compute(std::span<const uint64_t> tickets) {
  std::vector<ScoringReply> replies(tickets.size());
  if (reference_) {
    std::vector<PromptAnswers> prompts;
    for (const uint64_t ticket : tickets) prompts.push_back(answers_of(asked_.at(ticket).request));
    const std::vector<float> log_probs = reference_->log_probs(prompts);
    auto from = log_probs.begin();
    for (size_t i = 0; i < tickets.size(); ++i) {
      const auto end = from + static_cast<std::ptrdiff_t>(prompts[i].tokens.size());
      replies[i].reference = Array::of(std::vector<float>(from, end));
      from = end;
    }
  }
  if (run_.config.reward_model.by_scorers())
    for (size_t i = 0; i < tickets.size(); ++i)
      replies[i].scores = Array::of(model_scores(*run_.reward_model, asked_.at(tickets[i]).request));
  return replies;
}

void ScoringServer::answer(ServerPort& port, std::span<const uint64_t> tickets) {
  std::vector<ScoringReply> replies;
  std::optional<std::string> error;
  try {
    replies = compute(tickets);
  } catch (const std::exception& e) {
    ++counts_.failed;
    error = e.what();
  }
  if (error && tickets.size() > 1) {
    const size_t half = tickets.size() / 2;
    answer(port, tickets.first(half));
    return answer(port, tickets.subspan(half));
  }
  if (!error) {
    int64_t answers = 0;
    for (const uint64_t ticket : tickets) answers += asked_.at(ticket).request.count();
    note_batch(answers, port.now() - asked_.at(tickets.front()).since);
  }
  for (size_t i = 0; i < tickets.size(); ++i) {
    asked_.erase(tickets[i]);
    error ? port.fail(tickets[i], *error) : port.reply(tickets[i], std::move(replies[i]));
  }
}

}  // namespace troupe
