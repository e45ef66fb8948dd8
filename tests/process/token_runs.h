#pragma once
// What tests of token runs share.

#include "tests/process/train_process.h"
#include "tests/support/test.h"

namespace troupe::test {

inline const Words kEndless = set({"stop.updates=1000000", "checkpoint.every_updates=5"});

// The command must end with exit code 2 and say this.
inline void check_refused(const Words& words, const std::string& part) {
  const CommandLine command(words);
  CHECK(command.exit_code == 2);
  CHECK_MESSAGE(has(command.err, part), command.err);
}

}  // namespace troupe::test
