#include "tasks/verifier.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <set>

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"

namespace troupe {

namespace {

// Whether to log a failure: each text once in this process. A function may fail in a new way each time, so the number
// of texts is limited.
bool is_new(const std::string& text) {
  constexpr size_t kMostTexts = 100;
  static Mutex mutex;
  static std::set<std::string> texts;
  const MutexLock lock(mutex);
  return texts.size() < kMostTexts && texts.insert(text).second;
}

void log_failure(const std::string& error, const std::vector<std::string>& traceback) {
  std::string text = error;
  for (const std::string& line : traceback) text += '\n' + line;
  if (!is_new(text)) return;
  log_warn("verifier", error + "; the same failure is not logged again");
  if (!traceback.empty()) log_block(LogLevel::info, "verifier", traceback);
}

}  // namespace

Verifier::Verifier(VerifierTarget target) : target_(std::move(target)), wake_(eventfd(0, EFD_CLOEXEC)) {
  if (wake_.number() < 0) throw IoError(target_.function, "no eventfd for the verifier", errno);
}

void Verifier::abandon() {
  abandoned_ = true;
  eventfd_write(wake_.number(), 1);
}

std::optional<std::vector<Verdict>> Verifier::attempt(std::span<const VerifierItem> items) {
  using Clock = std::chrono::steady_clock;
  if (abandoned_) return std::nullopt;
  const Clock::time_point begin = Clock::now();
  std::optional<std::vector<Verdict>> verdicts;
  ++figures_.calls;
  try {
    if (!process_) {
      if (started_) ++figures_.restarts;
      started_ = true;
      process_ = std::make_unique<VerifierProcess>(target_, wake_.number());
    }
    verdicts = process_->score(items);
  } catch (const VerifierFailed& failed) {
    last_error_ = failed.what();
    if (!abandoned_) log_failure(last_error_, failed.traceback);
  } catch (const IoError& error) {  // the interpreter is missing, or no process can be started
    last_error_ = error.what();
    log_failure(last_error_, {});
  }
  if (!verdicts) {
    ++figures_.failed_calls;
    process_.reset();
  }
  const auto spent = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  figures_.busy_us += static_cast<uint64_t>(spent.count());
  return verdicts;
}

std::vector<Score> Verifier::score(std::span<const VerifierItem> items) {
  std::optional<std::vector<Verdict>> verdicts = attempt(items);
  if (!verdicts && !abandoned_) verdicts = attempt(items);
  return scores_of(std::move(verdicts), items.size());
}

std::vector<Score> Verifier::score_together(std::span<const VerifierItem> items) {
  std::optional<std::vector<Verdict>> verdicts = attempt(items);
  if (!verdicts && !abandoned_) throw VerifierFailed(last_error_);
  return scores_of(std::move(verdicts), items.size());
}

std::vector<Score> Verifier::scores_of(std::optional<std::vector<Verdict>> verdicts, size_t items) {
  if (!verdicts) verdicts.emplace(items, Verdict{{.scored = Scored::failed, .problem = last_error_}});
  std::vector<Score> scores;
  for (Verdict& verdict : *verdicts) {
    if (verdict.score.scored == Scored::yes) ++figures_.scored;
    const bool differs = verdict.score.problem != last_error_ || !verdict.traceback.empty();
    if (verdict.score.scored == Scored::failed && differs) {
      last_error_ = verdict.score.problem;
      log_failure(last_error_, verdict.traceback);
    }
    scores.push_back(std::move(verdict.score));
  }
  return scores;
}

}  // namespace troupe
