#pragma once
// What is checked and said of the functions and tasks in Python of a token run before they start. Plain functions; any
// thread.

#include <memory>

#include "actors/config/run_config.h"
#include "tools/cli/waiting_line.h"

namespace troupe {

// Throws ConfigError "task.verifier: ..." or "task.reply: ..." for one in a file that does not exist. Whether it can be
// called is tried when the run begins.
void check_function_files(const TaskConfig& task);

// Tells a user who waits for a task in Python; null for other tasks.
std::unique_ptr<WaitingLine> line_for_task(const TaskConfig& task);

// Prints that the function starts, which may take long, with what it imports. Nothing for an empty one.
void tell_start(const std::string& function, const std::string& python);

}  // namespace troupe
