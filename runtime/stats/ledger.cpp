#include "runtime/stats/ledger.h"

namespace troupe {

std::string Ledger::text() const {
  return "produced " + std::to_string(produced) + " = trained " + std::to_string(trained) + " + stale " +
         std::to_string(dropped_stale) + " + full " + std::to_string(dropped_full) + " + lost " +
         std::to_string(lost_in_crash) + " + left over " + std::to_string(left_over) + " + filtered " +
         std::to_string(filtered) + " + unscored " + std::to_string(unscored) + " + verifier failed " +
         std::to_string(verifier_failed) + " + baselines " + std::to_string(baselines) + " + waiting " +
         std::to_string(waiting);
}

}  // namespace troupe
