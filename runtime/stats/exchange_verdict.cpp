#include "runtime/stats/exchange_verdict.h"

#include <cmath>
#include <string>

#include "runtime/base/text_format.h"
#include "runtime/stats/processor_use.h"

namespace troupe {

namespace {

constexpr double kMuchUpdating = 0.85;    // share of time for which the trainer updates
constexpr double kMuchWorkersWait = 0.2;  // share of time for which groups wait for credits

std::string milliseconds(double seconds) { return format_count(std::llround(seconds * 1000)) + " ms"; }

// Whether the ranks of the trainer's machine have more threads than processors. Then they slow each other: what rank 0
// computes takes longer than it would alone, and fewer ranks compute as much.
bool ranks_share_processors(const StatsSnapshot& s) {
  return s.ranks_here > 1 && s.rank_processors > 0 && s.ranks_here * s.rank_threads > s.rank_processors;
}

// `alone`: seconds of an update on one rank, at most.
std::string advice_of(const StatsSnapshot& s, double alone) {
  const double now = s.stages.update->of_trainer();
  const bool shared = ranks_share_processors(s);
  if (alone < now)
    return std::string("fewer ranks: one rank computes an update in ") + (shared ? "at most " : "about ") +
           milliseconds(alone) + ", these in " + milliseconds(now);
  if (shared)
    return "fewer ranks on this machine: " + format_count(s.ranks_here) + " of " +
           format_counted(s.rank_threads, "thread") + " each share " + format_counted(s.rank_processors, "processor");
  // Ranks slow each other beside other parts of the run, too.
  if (s.ranks_here > 1 && run_fills_processors(s.busy))
    return "fewer ranks on this machine: its processors are always busy";
  return "fewer optimizer steps (trainer.minibatches, trainer.epochs), or a faster network";
}

}  // namespace

Bottleneck exchange_verdict(const StatsSnapshot& s) {
  if (s.ranks_up <= 1 || !s.stages.update || !s.stages.update->exchanges_most()) return {};
  const UpdateStages& update = *s.stages.update;
  const double updating = 1 - s.recent.trainer_wait, part = update.exchange / update.of_trainer();
  if (!(updating >= kMuchUpdating)) return {};
  const double alone = static_cast<double>(s.ranks_up) * update.computed() + update.publish;
  return {.what = "exchange",
          .why = "ranks wait for each other for " + format_percent(part) + " of an update",
          .advice = advice_of(s, alone),
          .resource = Resource::exchange,
          .share = updating * part,
          .waits = s.busy.credit_wait > kMuchWorkersWait ? "workers" : ""};
}

}  // namespace troupe
