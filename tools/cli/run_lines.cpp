#include "tools/cli/run_lines.h"

#include <cmath>

#include "actors/experience/kinds.h"
#include "runtime/base/text_format.h"
#include "runtime/stats/bottleneck.h"
#include "tools/cli/token_context.h"

namespace troupe {

namespace {

std::string success_text(double rate) {
  return std::isfinite(rate) ? ", success " + format_number(100 * rate, 1) + " %" : "";
}

// "pass@1 0.512, pass@2 0.604, reward 1.204 over 512 answers, 2 to each prompt".
std::string success_of(const Evaluation& e, const ExperienceWords& words, bool with_reward) {
  std::string text = std::string(words.evaluation_success) + ' ' + format_number(e.success_rate, 3);
  for (const auto& [k, passed] : e.pass_at)
    if (k > 1) text += ", pass@" + std::to_string(k) + ' ' + format_number(passed, 3);
  if (with_reward) text += std::string(", ") + words.episode_return + ' ' + format_number(e.return_mean, 3);
  const uint64_t each = e.pass_at.empty() ? 1 : e.pass_at.back().first;
  if (each == 1) return text + " over " + format_counted(e.episodes, words.episode);
  return text + " over " + format_counted(e.episodes, words.ended) + ", " + std::to_string(each) + " to each prompt";
}

// Of a warm-up that ended before its last step. What a verifier counts as right may not be what the user expects.
std::string reason_for_end(const WarmupState& warmup, const RunConfig& config) {
  if (warmup.step >= warmup.of) return "";
  return "; ended early, because warmup.pass_at_1 is " + format_number(config.warmup.pass_at_1, 2) +
         (config.task.verifier.empty()
              ? ""
              : " (right is a reward of at least 1, unless the verifier says which answers are right)");
}

std::string pass_text(const WarmupState& warmup) {
  return std::isfinite(warmup.pass_at_1) ? ", pass@1 " + format_number(warmup.pass_at_1, 2) : std::string();
}

}  // namespace

std::string evaluation_text(const Evaluation& e, const RunConfig& config) {
  const ExperienceWords& words = *kind_of(config).words;
  return std::string("evaluation: ") +
         (words.success_key != nullptr ? success_of(e, words, has_graded_rewards(config))
                                       : std::string(words.episode_return) + ' ' + format_number(e.return_mean, 2) +
                                             " +- " + format_number(e.return_std, 2) + success_text(e.success_rate) +
                                             " over " + format_counted(e.episodes, words.episode)) +
         (e.failed_episodes > 0 ? ", without " + format_count(e.failed_episodes) + ' ' + words.that_failed : "");
}

std::string evaluation_after_text(const Evaluation& evaluation, const RunConfig& config) {
  return "after " + format_counted(evaluation.version.number, "update") + ": " + evaluation_text(evaluation, config);
}

std::string failures_text(const StatsSnapshot& last, const ExperienceWords& words) {
  const uint64_t failures = env_failures_of(last);
  return std::string(words.failing) + " failed " + format_count(failures) + (failures == 1 ? " time" : " times") +
         (last.last_error.empty() ? "" : ", the last error: " + last.last_error);
}

std::string verifier_text(const StatsSnapshot& last) {
  if (!last.verifier) return "";
  const uint64_t failed = last.ledger.verifier_failed;
  const std::string calls =
      format_count(last.verifier->failed_calls) + " of " + format_counted(last.verifier->calls, "call");
  const uint64_t replies = last.verifier->failed_replies;
  if (failed + replies + last.verifier->failed_calls == 0) return "";
  if (replies > 0 && replies >= failed)
    return "replies: those to " + format_counted(replies, "answer") + " failed, which have no score; " + calls +
           " failed as a whole";
  if (failed == 0) return "verifier: " + calls + " failed, and were repeated";
  return "verifier: it failed on " + format_counted(failed, "answer") + ", without a score" +
         (replies > 0 ? ", " + format_count(replies) + " of them because the reply failed" : "") + "; " + calls +
         " failed as a whole";
}

std::string lost_text(uint64_t writes, uint64_t log_lines) {
  if (writes + log_lines == 0) return "";
  const std::string of_log = format_counted(log_lines, "line") + " of log.txt";
  return "disk: it refused " + (writes > 0 ? format_counted(writes, "write") + " to the run folder" : "") +
         (writes > 0 && log_lines > 0 ? " and " : "") + (log_lines > 0 ? of_log : "") + ", which are lost";
}

std::string warmup_text(const WarmupState& warmup) {
  return "warm-up: step " + format_count(warmup.step) + " of at most " + format_count(warmup.of) + ", loss " +
         format_number(warmup.loss, 3) + pass_text(warmup);
}

std::string warmup_end_text(const WarmupState& warmup, const RunConfig& config) {
  return "warm-up: " + format_counted(warmup.step, "step") + " on demonstrations" +
         (config.deterministic ? "" : " in " + format_number(warmup.seconds, 1) + " s") + pass_text(warmup) +
         reason_for_end(warmup, config);
}

}  // namespace troupe
