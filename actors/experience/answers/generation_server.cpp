#include "actors/experience/answers/generation_server.h"

#include <utility>

#include "actors/experience/answers/answer_checks.h"
#include "runtime/weights/weights.h"

namespace troupe {

namespace {

AnswerReply reply_of(const Generation& done) {
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets{0}, version;
  std::vector<float> log_probs;
  std::vector<uint8_t> finish;
  for (const GeneratedAnswer& answer : done.answers) {
    tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
    log_probs.insert(log_probs.end(), answer.log_probs.begin(), answer.log_probs.end());
    version.insert(version.end(), answer.version.begin(), answer.version.end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
    finish.push_back(static_cast<uint8_t>(answer.finish));
  }
  return {.tokens = Array::of(tokens),
          .offsets = Array::of(offsets),
          .log_probs = Array::of(log_probs),
          .version = Array::of(version),
          .finish = Array::of(finish)};
}

}  // namespace

GenerationServer::GenerationServer(const RunSpec& run, const RunFactories& factories)
    : run_(run), generator_(factories.make_generator()), scheduler_(*generator_, run.tokens->generation(run.config)) {}

Misfit GenerationServer::misfit(const RequestBody& request) const {
  const auto* answers = std::get_if<AnswerRequest>(&request);
  if (answers == nullptr) return "the request is not one for answers";
  return troupe::misfit(run_.config, *run_.tokens, *answers);
}

void GenerationServer::accept(uint64_t ticket, ClientId client, const RequestBody& request, Clock::time_point /*now*/) {
  const auto& answers = std::get<AnswerRequest>(request);
  asked_.emplace(ticket, Asked{client, answers});
  schedule(ticket, answers);
}

void GenerationServer::schedule(uint64_t ticket, const AnswerRequest& request) {
  const auto prompt = request.prompt.view<int32_t>();
  GenerationRequest asked{.ticket = ticket,
                          .prompt = {prompt.begin(), prompt.end()},
                          .max_tokens = run_.tokens->answer_tokens,
                          .keys = {},
                          .greedy = false};
  for (const int64_t key : request.keys.view<int64_t>()) asked.keys.push_back(static_cast<uint64_t>(key));
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
}

void GenerationServer::load(const WeightSnapshot& weights) {
  generator_->load(weights);
  if (version_ && version_->epoch != weights.version.epoch)
    for (const auto& [ticket, asked] : asked_) {
      scheduler_.forget(ticket);
      schedule(ticket, asked.request);
    }
  version_ = weights.version;
}

std::optional<Server::Clock::time_point> GenerationServer::due() const {
  return scheduler_.idle() ? std::nullopt : std::optional(Clock::time_point::min());
}

void GenerationServer::run_due(ServerPort& port) {
  if (!scheduler_.idle()) step(port);
}

void GenerationServer::step(ServerPort& port, std::span<const uint64_t> only) {
  const auto begun = Clock::now();
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
  if (scheduler_.last_rows() > 0) note_batch(scheduler_.last_rows(), Clock::now() - begun);
  for (const Generation& each : *done) {
    asked_.erase(each.ticket);
    port.reply(each.ticket, reply_of(each));
  }
}

}  // namespace troupe
