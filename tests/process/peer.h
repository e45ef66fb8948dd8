#pragma once
// An actor system in the test process that acts as a peer of a run, and a check of refused commands.

#include <algorithm>
#include <memory>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>

#include "actors/messages.h"
#include "runtime/caf/system.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

namespace troupe::test {

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Checks for exit code 2 and one line on stderr that contains `part`.
inline void check_refused(const CommandLine& line, const std::string& part) {
  CAPTURE(line.err);
  CHECK(line.exit_code == 2);
  CHECK(std::count(line.err.begin(), line.err.end(), '\n') == 1);
  CHECK(has(line.err, part));
}

// The actor system of a peer, in the process of the test.
struct Peer {
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  Peer() {
    register_messages(config);
    configure(config, {.threads = 1, .network = true, .network_config = {}});
    system = std::make_unique<caf::actor_system>(config);
  }
};

}  // namespace troupe::test
