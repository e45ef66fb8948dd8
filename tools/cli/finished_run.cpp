#include "tools/cli/finished_run.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "actors/experience/kinds.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/text_format.h"

namespace troupe {

namespace {

using Json = nlohmann::json;

// Whether the summary is of a start that ended at a limit, wrote everything, evaluated the last policy, and ended at
// the update where the run resumes.
bool is_of_finished_run(const Json& summary, uint64_t updates) {
  if (!summary.is_object() || summary.contains("error") || summary.contains("checkpoint_error")) return false;
  const Json reason = summary.value("reason", Json()), last = summary.value("updates", Json());
  const Json evaluation = summary.value("eval", Json());
  return reason.is_string() && reason.get<std::string>().starts_with("stop.") && last == updates &&
         evaluation.is_object() && !evaluation.contains("error") && evaluation.value("updates", last) == last;
}

// The contents of summary.json; not a JSON object if it cannot be read.
Json summary_of(const RunFolder& folder) {
  try {
    const std::string text = posix_disk().read(folder.path() + "/summary.json");
    return Json::parse(text, nullptr, /*allow_exceptions=*/false);
  } catch (const IoError&) {
    return {};
  }
}

bool ended_normally(const RunFolder& folder, uint64_t updates) {
  if (posix_disk().exists(folder.path() + "/endpoints.json")) return false;  // a later start was killed
  return is_of_finished_run(summary_of(folder), updates);
}

}  // namespace

std::string missing_checkpoint_line(const RunFolder& folder, uint64_t updates) {
  const Json summary = summary_of(folder);
  if (!summary.is_object() || summary.contains("checkpoint_error")) return "";
  const Json made = summary.value("updates", Json());
  if (!made.is_number_unsigned() || made.get<uint64_t>() <= updates) return "";
  return folder.path() + "/summary.json: the run ended after update " + std::to_string(made.get<uint64_t>()) +
         ", of which no checkpoint can be used; it resumes from the one after update " + std::to_string(updates);
}

std::string newest_evaluation(const RunFolder& folder, const std::string& saved, uint64_t updates) {
  // After how many updates, if it is an evaluation without an error.
  const auto updates_of = [](const Json& evaluation) -> std::optional<uint64_t> {
    if (!evaluation.is_object() || evaluation.contains("error")) return std::nullopt;
    const Json made = evaluation.value("updates", Json());
    return made.is_number_unsigned() ? std::optional(made.get<uint64_t>()) : std::nullopt;
  };
  const Json summary = summary_of(folder);
  const Json last = summary.is_object() ? summary.value("eval", Json()) : Json();
  const std::optional<uint64_t> after = updates_of(last), before = updates_of(Json::parse(saved, nullptr, false));
  return after && *after <= updates && (!before || *after > *before) ? last.dump() : saved;
}

FailedEvaluations failed_evaluations(const RunFolder& folder, const FailedEvaluations& saved, uint64_t updates) {
  try {
    const Json summary = summary_of(folder);
    const Json last = summary.is_object() ? summary.value("failed_evaluations", Json()) : Json();
    const FailedEvaluations failed = failed_evaluations_of(last.dump());
    return failed.count > saved.count && failed.updates <= updates ? failed : saved;
  } catch (const ConfigError&) {  // there is no summary, or an older version wrote it
    return saved;
  }
}

std::string finished_line(const RunFolder& folder, const RunConfig& config, const ReplayStart& start) {
  const uint64_t updates = start.version.number;
  if (config.stop.after_warmup && start.warmup.complete && !config.deterministic && ended_normally(folder, updates))
    return folder.path() + ": the warm-up of this run is over; to train further, run `troupe train` with it and " +
           "--set stop.after_warmup=false";
  const auto by_updates = static_cast<uint64_t>(config.stop.updates),
             by_steps = static_cast<uint64_t>(config.stop.env_steps);
  const bool updates_reached = by_updates > 0 && updates >= by_updates;
  const bool steps_reached = by_steps > 0 && start.env_steps >= by_steps;
  if (config.deterministic || !(updates_reached || steps_reached) || !ended_normally(folder, updates)) return "";
  std::string reached, raised;
  const auto add = [&](const char* limit, uint64_t value, uint64_t done) {
    reached += (reached.empty() ? "" : " and ") + std::string(limit) + ' ' + format_count(value);
    raised += " --set " + std::string(limit) + '=' + std::to_string(2 * std::max(value, done));
  };
  if (updates_reached) add("stop.updates", by_updates, updates);
  if (steps_reached) add("stop.env_steps", by_steps, start.env_steps);
  return folder.path() + ": this run has reached " + reached + " (" + format_counted(updates, "update") + ", " +
         format_counted(start.env_steps, kind_of(config).words->step) + "); to train further, raise the limit, like" +
         raised;
}

}  // namespace troupe
