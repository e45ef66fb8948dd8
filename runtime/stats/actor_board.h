#pragma once
// ActorBoard: where the actors of a process note how they spend their time and how long messages wait for them, and
// where stats reads it, also while an actor is busy. Any thread.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/blocked.h"

namespace troupe {

class ActorBoard {
 public:
  using Clock = std::chrono::steady_clock;

  // Of one actor. It is written by the actor's thread alone.
  class Entry {
   public:
    void begin_handler(Clock::time_point now) { begun_.store(ticks(now), std::memory_order_relaxed); }
    void end_handler(Clock::time_point begun, Clock::time_point now);
    // Where waits within handlers count.
    BlockedTime& blocked() { return blocked_; }
    // A probe, which waits in the actor's queue like any other message, arrives there at this time.
    void expect_probe(Clock::time_point arrival) { arrival_.store(ticks(arrival), std::memory_order_relaxed); }
    // Its turn has come.
    void take_probe(Clock::time_point now);

   private:
    friend class ActorBoard;
    static int64_t ticks(Clock::time_point time) { return time.time_since_epoch().count(); }
    // At `now`: of the handler that runs, and how long the newest probe has waited.
    int64_t in_handler(Clock::time_point now) const;
    int64_t waited(Clock::time_point now) const;

    std::atomic<int64_t> busy_{0}, begun_{0}, arrival_{0}, waited_{0};  // begun_: 0 = in no handler
    BlockedTime blocked_;
  };

  // Of all actors of a kind.
  struct Figures {
    uint64_t actors = 0;        // that live
    uint64_t busy_us = 0;       // in handlers, of those that have ended too; never falls
    uint64_t blocked_us = 0;    // of it, in waits; likewise
    double oldest_seconds = 0;  // the longest that the newest probe of any of them has waited
  };

  // The entry of a new actor, which keeps it as long as it lives.
  std::shared_ptr<Entry> add(const std::string& kind);
  std::map<std::string, Figures> figures(Clock::time_point now);

 private:
  struct Time {
    int64_t ended = 0;  // of actors that are gone
    uint64_t shown_us = 0;

    // With `living` of those that are not.
    uint64_t show(int64_t living);
  };
  struct Kind {
    std::vector<std::shared_ptr<Entry>> entries;
    Time busy, blocked;
  };

  std::mutex mutex_;
  std::map<std::string, Kind> kinds_;
};

}  // namespace troupe
