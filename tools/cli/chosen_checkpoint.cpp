#include "tools/cli/chosen_checkpoint.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/run_folder/best_checkpoints.h"
#include "tools/cli/flag_values.h"

namespace troupe {
namespace {

constexpr const char* kNewest = "newest";
constexpr const char* kBest = "best";

bool is_among(uint64_t step, const std::vector<uint64_t>& steps) {
  return std::ranges::find(steps, step) != steps.end();
}

// The numbers as text; only the newest ones if there are many.
std::string numbers_of(const std::vector<uint64_t>& steps) {
  constexpr size_t kNamed = 20;
  const size_t left_out = steps.size() - std::min(steps.size(), kNamed);
  std::string all = left_out == 0 ? "" : std::to_string(left_out) + " others";
  for (const uint64_t step : std::span(steps).subspan(left_out))
    all += (all.empty() ? "" : ", ") + std::to_string(step);
  return all;
}

std::string why_no_best(const std::string& run, const RunConfig& config) {
  if (!has_ranking(posix_disk(), run))
    return config.checkpoint.keep_best == 0
               ? "checkpoint.keep_best was 0 in this run; set it to 1 or more before training"
               : run + "/best.json is missing";
  if (config.evaluation.every_updates == 0)
    return "evaluation.every_updates is 0, and the evaluation at the end of the run was not made";
  return "no evaluation of a checkpoint has ended (evaluation.every_updates " +
         std::to_string(config.evaluation.every_updates) + ')';
}

// The best checkpoint, and the checksum of its weights.
struct Best {
  uint64_t updates = 0;
  std::string weights;
  friend bool operator==(const Best&, const Best&) = default;
};

Best best_of(const std::string& run, const RunConfig& config) {
  const Ranking ranking = read_ranking(posix_disk(), run);
  if (ranking.scores.empty()) throw ConfigError(run + ": has no best checkpoint: " + why_no_best(run, config));
  const uint64_t updates = ranking.scores.front().updates;
  return {updates, ranking.weights.at(updates)};
}

[[noreturn]] void refuse_missing_best(const std::string& run, uint64_t best, const CheckpointStore& checkpoints) {
  const std::string others = numbers_of(checkpoints.list());
  throw ConfigError(run + "/best.json: the best checkpoint, after update " + std::to_string(best) + ", is missing (" +
                    checkpoints.path_of(best) + "); restore it" +
                    (others.empty() ? "" : ", or choose another one, after update: " + others));
}

Checkpoint load_ranked(const std::string& run, const Best& best, const CheckpointStore& checkpoints) {
  Checkpoint checkpoint = checkpoints.load(best.updates);
  if (checkpoints.weights_checksum(best.updates) != best.weights)
    throw IoError(run + "/best.json", "ranks other weights after update " + std::to_string(best.updates) + " than " +
                                          checkpoints.path_of(best.updates) +
                                          " holds, so it may be of another run; choose a checkpoint by its number, "
                                          "after update: " +
                                          numbers_of(checkpoints.list()));
  return checkpoint;
}

Checkpoint load_best(const std::string& run, const RunConfig& config, const CheckpointStore& checkpoints) {
  for (Best best = best_of(run, config);;) {
    try {
      return load_ranked(run, best, checkpoints);
    } catch (const IoError&) {
      // A trainer that found a better one may have removed this one. It wrote best.json before that, so read it again.
      const Best before = std::exchange(best, best_of(run, config));
      if (best != before) continue;
      if (is_among(best.updates, checkpoints.list())) throw;
      refuse_missing_best(run, best.updates, checkpoints);
    }
  }
}

Checkpoint load_newest(const std::string& run, const CheckpointStore& checkpoints) {
  std::optional<Checkpoint> newest = checkpoints.load_newest();
  if (!newest)
    throw ConfigError(run + ": has no checkpoint yet, expected a run of `troupe train` that has written one");
  return std::move(*newest);
}

Checkpoint load_numbered(const std::string& run, const std::string& which, const CheckpointStore& checkpoints) {
  const std::vector<uint64_t> saved = checkpoints.list();
  const uint64_t step = std::stoull(which);
  if (is_among(step, saved)) return checkpoints.load(step);
  const std::string all = numbers_of(saved);
  throw ConfigError(run + ": has no checkpoint after " + format_counted(step, "update") + ", " +
                    (all.empty() ? "nor another one" : "those that it has are after: " + all));
}

std::string parse_checkpoint(std::string_view flag, const std::string& text) {
  if (text == kNewest || text == kBest) return text;
  constexpr size_t kMostDigits = 15;
  const bool number = !text.empty() && text.size() <= kMostDigits && text.find_first_not_of("0123456789") == text.npos;
  if (!number)
    refuse_flag(flag, '"' + printable(text) + "\" is not a checkpoint, expected newest, best or a number of updates");
  return text;
}

}  // namespace

void add_checkpoint_flag(Flags& flags, std::string& into) {
  flags.option("--checkpoint", "WHICH", into, parse_checkpoint,
               "newest, best (of a run with checkpoint.keep_best), or a number of updates (default: newest)");
}

ChosenCheckpoint load_checkpoint(const std::string& run, const RunConfig& config, const std::string& which,
                                 std::optional<uint64_t> weight_bytes) {
  CheckpointStore checkpoints(posix_disk(), run + "/checkpoints",
                              {fixed_settings(to_json(config), settings_of_run()), settings_of_run()});
  if (weight_bytes) checkpoints.expect_weights(*weight_bytes);
  try {
    Checkpoint chosen = which == kNewest ? load_newest(run, checkpoints)
                        : which == kBest ? load_best(run, config, checkpoints)
                                         : load_numbered(run, which, checkpoints);
    const std::string path = checkpoints.path_of(chosen.updates);
    return {std::move(chosen), path};
  } catch (const IoError& refused) {
    throw ConfigError(refused.what());
  }
}

std::string trained_text(uint64_t updates, uint64_t warmup_steps) {
  const std::string text = format_counted(updates, "update");
  return updates > 0 || warmup_steps == 0 ? text
                                          : text + " and " + format_counted(warmup_steps, "step") + " of the warm-up";
}

uint64_t warmup_steps_of(const Checkpoint& checkpoint) {
  const auto found = checkpoint.scalars.find(kWarmupSteps);
  const bool count = found != checkpoint.scalars.end() && found->second >= 0 && found->second <= 0x1p53;
  return count ? static_cast<uint64_t>(found->second) : 0;
}

}  // namespace troupe
