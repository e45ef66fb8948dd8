#include "actors/config/step_rules.h"

#include <algorithm>
#include <numeric>

#include "actors/config/config.h"
#include "models/decoder/lora.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/config/setting_rules.h"

namespace troupe {
namespace {

// The largest value that a numeric setting accepts.
int64_t most_of(std::string_view path) {
  RunConfig defaults;
  return static_cast<int64_t>(highest_of(describe(defaults), path));
}

void check_inference(const RunConfig& c) {
  const InferenceConfig& i = c.inference;
  const std::string limit = "inference.max_batch " + setting_text(i.max_batch);
  if (i.batch_size > i.max_batch)
    refuse_setting(
        "inference.batch_size", i.batch_size,
        "is above " + limit + "; use at most " + setting_text(i.max_batch) + ", or raise inference.max_batch");
  const int64_t asked = 2 * c.env.rows, room = i.max_batch / 2;
  const auto most = most_of("inference.max_batch");
  if (asked > i.max_batch)
    refuse_setting("env.rows", c.env.rows,
                   "sub-environments ask for up to " + setting_text(asked) +
                       " rows at once (each may need an action and the value of a final observation), above " + limit +
                       (asked > most ? "; use at most " + setting_text(std::max<int64_t>(room, 1)) +
                                           (room < 1 ? ", with inference.max_batch 2" : "")
                        : room < 1 ? "; raise inference.max_batch to at least " + setting_text(asked)
                                   : "; use at most " + setting_text(room) +
                                         ", or raise inference.max_batch to at least " + setting_text(asked)));
  if (std::min(c.evaluation.rows, c.evaluation.episodes) > i.max_batch)
    refuse_setting("evaluation.rows", c.evaluation.rows,
                   "do not fit into one batch of " + limit + "; use at most " + setting_text(i.max_batch) +
                       ", or raise inference.max_batch");
}

// Workers get credits for whole rollouts, at most (lag + 1) super-batches ahead of the trainer. Rounding down to whole
// rollouts can leave rollout - gcd(rollout, super_batch) of these samples unmade. If that is more than lag
// super-batches, some super-batch is never filled and the run hangs.
void check_rollouts(const RunConfig& c) {
  const int64_t rollout = c.rollout.length * c.env.rows;
  const int64_t super_batch = c.trainer.super_batch;
  const int64_t lag = c.replay.max_policy_lag;
  const std::string made = "workers make whole rollouts of " + setting_text(rollout) + " samples (rollout.length " +
                           setting_text(c.rollout.length) + " x env.rows " + setting_text(c.env.rows) +
                           "), and replay.max_policy_lag " + setting_text(lag) + " lets them make at most " +
                           setting_text((lag + 1) * super_batch) + " in advance";
  if (c.replay.draw == "column" && super_batch < c.rollout.length)
    refuse_setting("trainer.super_batch", super_batch,
                   "is less than one column of a rollout, rollout.length " + setting_text(c.rollout.length) +
                       "; use at least " + setting_text(c.rollout.length));
  if (rollout - std::gcd(rollout, super_batch) <= lag * super_batch) return;
  const int64_t nearest = (super_batch + rollout - 1) / rollout * rollout;
  const int64_t needed_lag = (rollout - std::gcd(rollout, super_batch) + super_batch - 1) / super_batch;
  const bool in_range = nearest <= most_of("trainer.super_batch");
  refuse_setting("trainer.super_batch", super_batch,
                 "could never be filled: " + made + "; use " +
                     (in_range ? "a multiple of " + setting_text(rollout) + ", like " + setting_text(nearest) + ", or "
                               : "fewer env.rows, a smaller rollout.length or ") +
                     "replay.max_policy_lag of at least " + setting_text(needed_lag));
}

void check_adapters(const ModelConfig& m) {
  if (lora_from_config(m.lora, "model.lora").used() && m.path.empty())
    throw ConfigError("model.lora: " + printable(m.lora) +
                      " needs the weights of a run, and model.path is empty; set model.path to the folder of the run");
}

}  // namespace

void check_step_settings(const RunConfig& c) {
  check_adapters(c.model);
  if (masks_late(c))
    refuse_setting(
        "replay.late", c.replay.late,
        "has no effect with model.kind \"" + c.model.kind + "\", which makes no answers; use \"wait\" or \"drop\"");
}

void check_step_sizes(const RunConfig& config) {
  check_inference(config);
  check_rollouts(config);
}

}  // namespace troupe
