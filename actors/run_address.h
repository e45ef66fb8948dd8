#pragma once
// RunAddress: where a host in a process of its own finds a run, and who hears of it. Plain values.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "actors/messages.h"

namespace troupe {

// For how long a host looks for a run.
struct JoinPatience {
  std::chrono::seconds at_start{30};
  std::chrono::seconds after_loss{600};  // time for an operator to resume the run
};

// What is said of a host: on the console of its process, or in the log.
struct JoinNews {
  // gave_up: before an end with an error that is not a refusal by the run.
  enum class Kind { joined, searching, lost, ended, gave_up };
  Kind kind = Kind::joined;
  std::string who;   // "worker 3", or "worker" before it joined
  std::string text;  // one line
};

// Where a run is, for how long it is looked for there, and who hears how that goes.
struct RunAddress {
  std::string host;
  uint16_t port = 0;
  // The join server itself, where there is no network; returns none while no run is open.
  std::function<JoinService()> local;
  JoinPatience patience = {};
  std::function<void(const JoinNews&)> on_news = {};  // called by the host's actor
  std::string config = {};                            // JSON; as in a JoinRequest
  bool launched = false;  // by what has started the run too, and starts both again: a run that is ending has ended
  std::string text() const;
};

}  // namespace troupe
