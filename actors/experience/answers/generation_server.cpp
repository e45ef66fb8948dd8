#include "actors/experience/answers/generation_server.h"

#include <algorithm>
#include <utility>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/conversation.h"
#include "runtime/weights/weights.h"

namespace troupe {

namespace {

uint64_t microseconds(Server::Clock::duration duration) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

GenerationOptions options_of(const RunSpec& run) {
  GenerationOptions options = run.tokens->generation(run.config);
  const std::string& chosen = run.config.generation.on_new_weights;
  if (chosen == "recompute") options.on_new_weights = OnNewWeights::recompute;
  if (chosen == "finish") options.on_new_weights = OnNewWeights::finish;
  return options;
}

}  // namespace

GenerationServer::GenerationServer(const RunSpec& run, const RunFactories& factories)
    : run_(run),
      generator_(factories.make_generator(run.config.generation.temperature)),
      scheduler_(*generator_, options_of(run)),
      on_new_weights_(options_of(run).on_new_weights) {}

Misfit GenerationServer::misfit(const RequestBody& request) const {
  const auto* answers = std::get_if<AnswerRequest>(&request);
  if (answers == nullptr) return "the request is not one for answers";
  return troupe::misfit(run_.config, *run_.tokens, *answers);
}

void GenerationServer::accept(uint64_t ticket, ClientId client, const RequestBody& request, Clock::time_point /*now*/) {
  const auto& answers = std::get<AnswerRequest>(request);
  if (!answers.continues()) pause(client);
  const auto before = before_.find(client);
  asked_.emplace(ticket, Asked{client, answers});
  schedule(ticket, answers, before == before_.end() ? ticket : before->second);
  if (run_.tokens->turns > 1) before_[client] = ticket;
}

void GenerationServer::pause(ClientId client) {
  const auto before = before_.find(client);
  if (before == before_.end()) return;
  scheduler_.forget(before->second);
  before_.erase(before);
}

void GenerationServer::schedule(uint64_t ticket, const AnswerRequest& request, uint64_t before) {
  const auto prompt = request.prompt.view<int32_t>();
  GenerationRequest asked{.ticket = ticket,
                          .prompt = {prompt.begin(), prompt.end()},
                          .max_tokens = run_.tokens->answer_tokens,
                          .keys = {},
                          .greedy = static_cast<size_t>(std::ranges::count(request.greedy.view<uint8_t>(), 1)),
                          .before = before};
  for (const int64_t key : request.keys.view<int64_t>()) asked.keys.push_back(static_cast<uint64_t>(key));
  const auto history = request.history.view<int32_t>();
  const auto offsets = request.history_offsets.view<int64_t>();
  counts_.histories += history.size();
  for (size_t a = 0; a + 1 < offsets.size(); ++a)
    asked.history.emplace_back(history.begin() + offsets[a], history.begin() + offsets[a + 1]);
  scheduler_.add(std::move(asked));
}

void GenerationServer::forget(uint64_t ticket) {
  scheduler_.forget(ticket);
  asked_.erase(ticket);
}

void GenerationServer::forget_worker(uint64_t worker) {
  std::erase_if(asked_, [&](const auto& entry) {
    if (entry.second.client.worker != worker) return false;
    scheduler_.forget(entry.first);
    return true;
  });
  std::erase_if(before_, [&](const auto& entry) {
    if (entry.first.worker != worker) return false;
    scheduler_.forget(entry.second);
    return true;
  });
}

void GenerationServer::load(const WeightsPtr& weights, Clock::time_point now) {
  if (waiting_ && weights->version <= waiting_->version) return;
  if (!waiting_) waits_since_ = now;
  waiting_ = weights;
  use_waiting(now);
}

bool GenerationServer::must_wait(const WeightSnapshot& weights) const {
  if (!version_ || version_->epoch != weights.version.epoch) return false;
  return on_new_weights_ == OnNewWeights::finish ? scheduler_.any_begun() : scheduler_.recomputing();
}

void GenerationServer::use_waiting(Clock::time_point now) {
  if (!waiting_) return;
  const bool wait = must_wait(*waiting_);
  scheduler_.hold(wait && on_new_weights_ == OnNewWeights::finish);
  if (wait) return;
  const WeightsPtr weights = std::exchange(waiting_, nullptr);
  counts_.weights_wait_us += microseconds(now - waits_since_);
  generator_->load(*weights);
  const bool new_epoch = version_ && version_->epoch != weights->version.epoch;
  if (new_epoch || on_new_weights_ != OnNewWeights::keep) scheduler_.forget_done();
  if (new_epoch)
    for (const auto& [ticket, asked] : asked_) {
      scheduler_.forget(ticket);
      schedule(ticket, asked.request, ticket);
    }
  version_ = weights->version;
}

std::optional<Server::Clock::time_point> GenerationServer::due() const {
  return scheduler_.idle() ? std::nullopt : std::optional(Clock::time_point::min());
}

void GenerationServer::run_due(ServerPort& port) {
  if (!scheduler_.idle()) step(port);
  use_waiting(port.now());
}

void GenerationServer::step(ServerPort& port, std::span<const uint64_t> only) {
  const auto begun = port.now();
  std::optional<std::vector<Generation>> done;
  std::string error;
  try {
    done = scheduler_.step(*generator_, version_->number, only);
  } catch (const std::exception& e) {
    ++counts_.failed;
    error = e.what();
  }
  // Outside the try block: requests that have been answered must not be computed and answered again.
  if (!done) {
    const std::vector<uint64_t> failed = only.empty() ? scheduler_.tickets() : std::vector(only.begin(), only.end());
    if (failed.size() > 1) {
      const size_t half = failed.size() / 2;
      step(port, std::span(failed).first(half));
      return step(port, std::span(failed).subspan(half));
    }
    for (const uint64_t ticket : failed) {
      forget(ticket);
      port.fail(ticket, error);
    }
    return;
  }
  note_step(*done, port.now() - begun);
  for (const Generation& each : *done) {
    asked_.erase(each.ticket);
    port.reply(each.ticket, packed(each.answers));
  }
}

void GenerationServer::note_step(const std::vector<Generation>& done, Clock::duration duration) {
  if (scheduler_.last_rows() == 0) return;
  note_batch(scheduler_.last_rows(), duration);
  if (waiting_) ++counts_.waited_steps;
  counts_.reused += static_cast<uint64_t>(scheduler_.take_reused());
  counts_.recomputed += static_cast<uint64_t>(scheduler_.last_recomputed());
  for (const Generation& each : done)
    counts_.mixed_answers += static_cast<uint64_t>(std::ranges::count_if(
        each.answers, [](const GeneratedAnswer& answer) { return answer.version.front() != answer.version.back(); }));
}

}  // namespace troupe
