#include "tasks/verifier.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "runtime/base/file.h"

namespace troupe {

Verifier::Verifier(VerifierTarget target, FailureLog& log)
    : target_(std::move(target)), log_(log), wake_(eventfd(0, EFD_CLOEXEC)) {
  if (wake_.number() < 0) throw IoError(target_.function, "no eventfd for the verifier", errno);
}

Verifier::~Verifier() { log_.end(); }

void Verifier::abandon() {
  abandoned_ = true;
  eventfd_write(wake_.number(), 1);
}

template <class Call>
auto Verifier::attempt(const Call& call) -> std::optional<decltype(call(std::declval<VerifierProcess&>()))> {
  using Clock = std::chrono::steady_clock;
  if (abandoned_) return std::nullopt;
  const Clock::time_point begin = Clock::now();
  std::optional<decltype(call(std::declval<VerifierProcess&>()))> result;
  ++figures_.calls;
  try {
    if (!process_) {
      if (started_) ++figures_.restarts;
      started_ = true;
      process_ = std::make_unique<VerifierProcess>(target_, wake_.number());
    }
    result = call(*process_);
  } catch (const VerifierRaised& raised) {
    last_error_ = raised.what();
    log_.add(last_error_, raised.traceback, raised.place);
  } catch (const VerifierFailed& failed) {
    last_error_ = failed.what();
    if (!abandoned_) log_.add(last_error_, failed.traceback, failed.place);
    process_.reset();
  } catch (const IoError& error) {  // the interpreter is missing, or no process can be started
    last_error_ = error.what();
    log_.add(last_error_, {}, "");
    process_.reset();
  }
  if (!result) ++figures_.failed_calls;
  const auto spent = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  figures_.busy_us += static_cast<uint64_t>(spent.count());
  return result;
}

std::vector<Score> Verifier::score(std::span<const VerifierItem> items) {
  const auto call = [&](VerifierProcess& process) { return process.score(items); };
  std::optional<std::vector<Verdict>> verdicts = attempt(call);
  if (!verdicts && !abandoned_) verdicts = attempt(call);
  return scores_of(std::move(verdicts), items.size());
}

std::vector<Score> Verifier::score_together(std::span<const VerifierItem> items) {
  std::optional<std::vector<Verdict>> verdicts =
      attempt([&](VerifierProcess& process) { return process.score(items); });
  if (!verdicts && !abandoned_) throw VerifierFailed(last_error_);
  return scores_of(std::move(verdicts), items.size());
}

std::vector<Reply> Verifier::reply(std::span<const VerifierItem> items, const MessageProblem& problem_of) {
  const auto call = [&](VerifierProcess& process) { return process.reply(items); };
  std::optional<std::vector<Reply>> replies = attempt(call);
  if (!replies && !abandoned_) replies = attempt(call);
  if (!replies) replies.emplace(items.size(), Reply{.problem = last_error_});
  for (Reply& reply : *replies) {
    if (reply.message && problem_of) reply.problem = problem_of(reply);
    ++(reply.problem.empty() ? figures_.replied : figures_.failed_replies);
    if (reply.problem.empty()) continue;
    reply.message.reset();
    if (reply.problem != last_error_) note_failure(reply.problem, {}, "");
  }
  return std::move(*replies);
}

void Verifier::note_failure(const std::string& problem, const std::vector<std::string>& traceback,
                            const std::string& place) {
  last_error_ = problem;
  log_.add(problem, traceback, place);
}

std::vector<Score> Verifier::scores_of(std::optional<std::vector<Verdict>> verdicts, size_t items) {
  if (!verdicts) verdicts.emplace(items, Verdict{{.scored = Scored::failed, .problem = last_error_}});
  std::vector<Score> scores;
  for (Verdict& verdict : *verdicts) {
    if (verdict.score.scored == Scored::yes) ++figures_.scored;
    const bool differs = verdict.score.problem != last_error_ || !verdict.traceback.empty();
    if (verdict.score.scored == Scored::failed && differs)
      note_failure(verdict.score.problem, verdict.traceback, verdict.place);
    scores.push_back(std::move(verdict.score));
  }
  return scores;
}

}  // namespace troupe
