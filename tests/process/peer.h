#pragma once
// A peer of a run, as an actor system in the test, and what refused commands say.

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

// One line on stderr that holds `part`, exit code 2.
inline void check_refused(const CommandLine& line, const std::string& part) {
  CAPTURE(line.err);
  CHECK(line.exit_code == 2);
  CHECK(std::count(line.err.begin(), line.err.end(), '\n') == 1);
  CHECK(has(line.err, part));
}

// The actor system of a peer in this process.
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
