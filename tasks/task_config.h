#pragma once
// The section "task" of a config file. Plain values; any thread.

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct TaskConfig {
  std::string name = "reverse";  // the task; docs/tokens.md lists them
  // JSON object with the task's parameters, which the task checks.
  std::string params = "{}";
  std::string sampling = "permutation";  // how workers draw prompts of a list: permutation or failure_weighted
  // Answers to a prompt: after each but the last the task may give a message.
  int64_t turns = 1;
  int64_t message_tokens = 0;  // of a message, which is cut there; 0 = the longest message of the task
  std::string reply;           // the function in Python that gives the messages; empty = the task does
  std::string verifier;        // the function in Python that scores answers; empty = the code of the task
  // Of verifiers, and of functions that reply.
  std::string python = "python3";                            // the interpreter: a name in PATH, or a path
  std::chrono::milliseconds verifier_timeout{10'000};        // for one call
  std::chrono::milliseconds verifier_start_timeout{60'000};  // for the start of a process
  int64_t verifier_batch = 32;                               // answers of one call
  int64_t verifier_processes = 1;                            // of each worker
  double weight = 1.0;  // of the score, the verifier's too, beside that of a reward model; 0 = it is only reported
  friend bool operator==(const TaskConfig&, const TaskConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(TaskConfig& config, Fields& fields);

}  // namespace troupe
