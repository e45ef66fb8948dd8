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

Ledger& Ledger::operator+=(const Ledger& other) {
  for (uint64_t Ledger::* count : {&Ledger::produced, &Ledger::trained, &Ledger::dropped_stale, &Ledger::dropped_full,
                                   &Ledger::lost_in_crash, &Ledger::left_over, &Ledger::filtered, &Ledger::unscored,
                                   &Ledger::verifier_failed, &Ledger::baselines, &Ledger::waiting})
    this->*count += other.*count;
  return *this;
}
static_assert(sizeof(Ledger) == 11 * sizeof(uint64_t));  // add a new count to the sum above

}  // namespace troupe
