#include "runtime/stats/exchange_verdict.h"

#include <cmath>
#include <string>

#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr double kMuchUpdating = 0.85;    // share of time for which the trainer updates
constexpr double kMuchWorkersWait = 0.2;  // share of time for which groups wait for credits

std::string milliseconds(double seconds) { return format_count(std::llround(seconds * 1000)) + " ms"; }

}  // namespace

Bottleneck exchange_verdict(const StatsSnapshot& s) {
  if (s.ranks == 1 || !s.stages.update || !s.stages.update->exchanges_most()) return {};
  const UpdateStages& update = *s.stages.update;
  const double updating = 1 - s.recent.trainer_wait, part = update.exchange / update.of_trainer();
  if (!(updating >= kMuchUpdating)) return {};
  const double alone = static_cast<double>(s.ranks) * update.computed() + update.publish;
  return {.what = "exchange",
          .why = "ranks wait for each other for " + format_percent(part) + " of an update",
          .advice = alone < update.of_trainer()
                        ? "fewer ranks: one rank computes an update in about " + milliseconds(alone) + ", these in " +
                              milliseconds(update.of_trainer())
                        : "fewer optimizer steps (trainer.minibatches, trainer.epochs), or a faster network",
          .resource = Resource::exchange,
          .share = updating * part,
          .waits = s.busy.credit_wait > kMuchWorkersWait ? "workers" : ""};
}

}  // namespace troupe
