#pragma once
// Verifiers of tests/tasks/verifiers.py, and answers for them to score.

#include <chrono>
#include <string>
#include <vector>

#include "tasks/verifier_process.h"

namespace troupe::test {

inline VerifierTarget target_of(const std::string& function,
                                std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  return {.function = "tests/tasks/verifiers.py:" + function, .python = "python3", .timeout = timeout};
}

inline const std::vector<VerifierItem> kItems = {{"1+1=", "2", "2"}, {"1+1=", "2", "4"}};

// An answer to "1+1=" with these columns.
inline VerifierItem item(const std::string& answer, const std::string& columns = {}) {
  return {.prompt = "1+1=", .truth = "2", .answer = answer, .columns = columns};
}

}  // namespace troupe::test
