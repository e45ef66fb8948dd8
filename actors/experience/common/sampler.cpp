#include "actors/experience/common/sampler.h"

#include <algorithm>
#include <span>
#include <utility>

#include "actors/experience/common/state_bytes.h"
#include "runtime/base/errors.h"

namespace troupe {

Sampler::Sampler(uint64_t worker, int64_t groups, SamplerPort& port, uint32_t patience, bool scoring)
    : worker_(worker),
      port_(port),
      groups_of_worker_(static_cast<uint32_t>(groups)),
      asking_(static_cast<size_t>(scoring ? 2 * groups : groups)),
      patience_(patience) {
  report_.worker = worker;
  for (size_t g = 0; g < asking_.size(); ++g) {
    asking_[g].request.worker = worker;
    asking_[g].request.group = static_cast<uint32_t>(g);
  }
}

void Sampler::add_credits(uint32_t count) {
  credits_ += count;
  for (uint32_t group = 0; group < groups(); ++group)
    if (credits_ > 0 && is_free(group)) start_with_credit(group);
}

bool Sampler::start_with_credit(uint32_t group) {
  if (credits_ == 0) return false;
  --credits_;
  end_wait(asking_[group].without_credit, credit_wait_);
  start(group);
  return true;
}

void Sampler::wait_for_credit(uint32_t group) { asking_[group].without_credit = port_.now(); }

void Sampler::ask(uint32_t number, RequestBody body) {
  Asking& asking = asking_[number];
  asking.request.id = next_request_++;
  asking.request.body = std::move(body);
  asking.outstanding = true;
  asking.asked = port_.now();
  send(asking);
}

void Sampler::send(Asking& request) {
  request.failed = false;
  request.retry.asked();
  ++report_.requests;
  port_.ask(request.request);
}

void Sampler::ask_again(uint32_t number) {
  if (!asking_[number].outstanding) return;
  ++report_.retries;
  send(asking_[number]);
}

std::pair<uint32_t, uint32_t> Sampler::requests_of(Role role) const {
  if (role == Role::sampling) return {0, groups()};
  return {groups(), static_cast<uint32_t>(asking_.size())};
}

std::string Sampler::what_failed(uint32_t number) const {
  return role_of(number) == Role::sampling ? "inference" : "scoring";
}

bool Sampler::waits_for_scorer() const {
  return std::ranges::any_of(std::span(asking_).subspan(groups()), &Asking::outstanding);
}

void Sampler::ask_all_again(Role role) {
  const auto [first, end] = requests_of(role);
  for (uint32_t number = first; number < end; ++number) ask_again(number);
}

void Sampler::beat() {
  for (uint32_t number = 0; number < asking_.size(); ++number)
    if (asking_[number].outstanding && asking_[number].retry.beat(patience_)) ask_again(number);
}

void Sampler::wake(uint32_t number, uint32_t item) {
  TROUPE_CHECK(number < asking_.size(), number, asking_.size());
  if (item == kAskAgain)
    ask_again(number);
  else
    on_wake(number, item);
}

void Sampler::on_scores(const ScoreReply& reply) { TROUPE_CHECK(false, reply.id, reply.group); }

bool Sampler::awaits(const InferenceReply& reply) const {
  return reply.group < asking_.size() && asking_[reply.group].outstanding &&
         asking_[reply.group].request.id == reply.id;
}

std::optional<std::string> Sampler::on_reply(const InferenceReply& reply) {
  if (!awaits(reply)) return std::nullopt;  // the request has been answered before
  Asking& group = asking_[reply.group];
  if (reply.in_progress()) {
    group.retry.in_progress();
    return std::nullopt;
  }
  if (reply.fault != Fault::none) {
    note_failed(group, reply.fault, reply.error);
    return std::nullopt;
  }
  if (auto why = misfit(reply.group, group.request.body, reply)) {
    note_failed(group, Fault::forward_failed, "the reply does not fit the request: " + *why);
    return why;
  }
  group.retry.answered();
  group.outstanding = false;
  std::chrono::nanoseconds scoring_wait{0};  // is no wait for actions
  if (std::holds_alternative<AnswerRequest>(group.request.body) && group.asked)
    answer_seconds_.add(std::chrono::duration<double>(port_.now() - *group.asked).count());
  end_wait(group.asked, reply.group < groups() ? action_wait_ : scoring_wait);
  const RequestBody request = std::move(group.request.body);  // take() may send the next one
  take(reply.group, request, reply);
  return std::nullopt;
}

void Sampler::note_failed(Asking& request, Fault fault, const std::string& error) {
  if (std::exchange(request.failed, true)) return;
  const uint32_t number = request.request.group;
  if (fault != Fault::shutting_down)  // an inference process that leaves is not why the worker fails
    report_.last_error = (fault == Fault::forward_failed ? what_failed(number) + " failed: " : "") + error;
  port_.wake_later(number, kAskAgain, request.retry.failed(fault, error, what_failed(number)));
}

uint32_t Sampler::beats_without_answer() const {
  uint32_t most = 0;
  for (const Asking& group : asking_) most = std::max(most, group.retry.silent_beats());
  return most >= RequestRetry::kSilence ? most : 0;
}

Role Sampler::silent_role() const {
  const auto longest =
      std::ranges::max_element(asking_, {}, [](const Asking& request) { return request.retry.silent_beats(); });
  return role_of(static_cast<uint32_t>(longest - asking_.begin()));
}

void Sampler::end_wait(std::optional<Clock::time_point>& since, std::chrono::nanoseconds& sum) const {
  if (since) sum += port_.now() - *since;
  since.reset();
}

WorkerReport Sampler::report() const {
  WorkerReport result = report_;
  std::chrono::nanoseconds credit_wait = credit_wait_, action_wait = action_wait_;
  for (const Asking& group : std::span(asking_).first(groups())) {  // waits that have not ended
    auto without_credit = group.without_credit, asked = group.asked;
    end_wait(without_credit, credit_wait);
    end_wait(asked, action_wait);
  }
  const auto microseconds = [](std::chrono::nanoseconds time) { return static_cast<uint64_t>(time.count() / 1000); };
  result.step_us = microseconds(busy_);
  result.credit_wait_us = microseconds(credit_wait) / groups();
  result.action_wait_us = microseconds(action_wait) / groups();
  add_to(result);
  return result;
}

WorkerTimes Sampler::take_times() {
  return {std::exchange(step_seconds_, {}).counts(), std::exchange(answer_seconds_, {}).counts()};
}

std::string Sampler::save() const {
  TROUPE_CHECK(credits_ == 0 && std::ranges::none_of(asking_, &Asking::outstanding), credits_);
  return to_bytes(next_request_, sequence_, report_, save_parts());
}

void Sampler::load(const std::string& bytes) {
  std::vector<std::string> parts;
  from_bytes(bytes, "worker " + std::to_string(worker_), next_request_, sequence_, report_, parts);
  load_parts(parts);
}

}  // namespace troupe
