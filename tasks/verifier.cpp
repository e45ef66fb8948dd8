#include "tasks/verifier.h"

#include "runtime/base/file.h"

namespace troupe {

std::optional<std::vector<Verdict>> Verifier::attempt(std::span<const VerifierItem> items) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::optional<std::vector<Verdict>> verdicts;
  ++figures_.calls;
  try {
    if (!process_) {
      if (started_) ++figures_.restarts;
      started_ = true;
      process_ = std::make_unique<VerifierProcess>(target_);
    }
    verdicts = process_->score(items);
  } catch (const VerifierFailed& failed) {
    last_error_ = failed.what();
  } catch (const IoError& error) {  // the interpreter is missing, or no process can be started
    last_error_ = error.what();
  }
  if (!verdicts) {
    ++figures_.failures;
    process_.reset();
  }
  figures_.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  return verdicts;
}

std::optional<std::vector<Verdict>> Verifier::score(std::span<const VerifierItem> items) {
  std::optional<std::vector<Verdict>> verdicts = attempt(items);
  if (!verdicts) verdicts = attempt(items);
  if (!verdicts) figures_.dropped += items.size();
  return verdicts;
}

}  // namespace troupe
