#include "runtime/stats/actor_board.h"

#include <algorithm>

namespace troupe {

void ActorBoard::Entry::end_handler(Clock::time_point begun, Clock::time_point now) {
  begun_.store(0, std::memory_order_relaxed);
  busy_.store(busy_.load(std::memory_order_relaxed) + (now - begun).count(), std::memory_order_relaxed);
}

void ActorBoard::Entry::take_probe(Clock::time_point now) {
  const int64_t arrival = arrival_.load(std::memory_order_relaxed);
  waited_.store(std::max<int64_t>(ticks(now) - arrival, 0), std::memory_order_relaxed);
}

int64_t ActorBoard::Entry::in_handler(Clock::time_point now) const {
  const int64_t begun = begun_.load(std::memory_order_relaxed);
  return begun == 0 ? 0 : std::max<int64_t>(ticks(now) - begun, 0);
}

// A probe that has arrived and whose turn has not come waits still.
int64_t ActorBoard::Entry::waited(Clock::time_point now) const {
  const int64_t arrival = arrival_.load(std::memory_order_relaxed);
  const int64_t waits = arrival == 0 ? 0 : ticks(now) - arrival;
  return waits > 0 ? waits : waited_.load(std::memory_order_relaxed);
}

std::shared_ptr<ActorBoard::Entry> ActorBoard::add(const std::string& kind) {
  const std::scoped_lock lock(mutex_);
  return kinds_[kind].entries.emplace_back(std::make_shared<Entry>());
}

// Never falls, though an actor may be read while it moves a time from what goes on to what has ended.
uint64_t ActorBoard::Time::show(int64_t living) {
  constexpr int64_t kTicksPerMicrosecond =
      std::chrono::duration_cast<Clock::duration>(std::chrono::microseconds(1)).count();
  return shown_us = std::max(shown_us, static_cast<uint64_t>((ended + living) / kTicksPerMicrosecond));
}

std::map<std::string, ActorBoard::Figures> ActorBoard::figures(Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, Figures> result;
  for (auto& [name, kind] : kinds_) {
    std::erase_if(kind.entries, [&](const std::shared_ptr<Entry>& entry) {
      if (entry.use_count() > 1) return false;
      kind.busy.ended += entry->busy_.load(std::memory_order_relaxed);
      kind.blocked.ended += entry->blocked_.ticks(now);
      return true;
    });
    int64_t busy = 0, blocked = 0, oldest = 0;
    for (const std::shared_ptr<Entry>& entry : kind.entries) {
      busy += entry->busy_.load(std::memory_order_relaxed) + entry->in_handler(now);
      blocked += entry->blocked_.ticks(now);
      oldest = std::max(oldest, entry->waited(now));
    }
    const uint64_t busy_us = kind.busy.show(busy), blocked_us = std::min(kind.blocked.show(blocked), busy_us);
    if (!kind.entries.empty())
      result[name] = {kind.entries.size(), busy_us, blocked_us,
                      std::chrono::duration<double>(Clock::duration(oldest)).count()};
  }
  return result;
}

}  // namespace troupe
