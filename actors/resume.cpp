#include "actors/resume.h"

#include <utility>

namespace troupe {

namespace {

// Every count of the ledger with its name.
template <class AnyLedger, class Function>
void for_each_count(AnyLedger& ledger, Function function) {
  function("ledger.produced", ledger.produced);
  function("ledger.trained", ledger.trained);
  function("ledger.dropped_stale", ledger.dropped_stale);
  function("ledger.dropped_full", ledger.dropped_full);
  function("ledger.lost_in_crash", ledger.lost_in_crash);
  function("ledger.left_over", ledger.left_over);
  function("ledger.waiting", ledger.waiting);
}

}  // namespace

void put_ledger(Checkpoint& checkpoint, const Ledger& ledger) {
  for_each_count(ledger,
                 [&](const char* name, uint64_t count) { checkpoint.scalars[name] = static_cast<double>(count); });
}

ReplayStart resume(const Checkpoint& checkpoint, Learner& learner) {
  learner.load({checkpoint.model, checkpoint.optimizer, checkpoint.scalars});
  ReplayStart start;
  start.version = {checkpoint.version.epoch + 1, checkpoint.version.number};
  start.env_steps = checkpoint.env_steps;
  for_each_count(start.ledger, [&](const char* name, uint64_t& count) {
    const auto it = checkpoint.scalars.find(name);
    count = it == checkpoint.scalars.end() ? 0 : static_cast<uint64_t>(it->second);
  });
  return start;
}

}  // namespace troupe
