#pragma once
// What the two programs share: how they end, and how one starts the other.

#include <functional>
#include <string>

namespace troupe {

inline constexpr int kExitFailure = 1;        // a bug, or a problem of the machine
inline constexpr int kExitUserMistake = 2;    // ConfigError
inline constexpr int kExitInterrupted = 130;  // a signal asked to stop

// The exit code of `body`; an exception becomes one line on stderr and its exit code, and so does an output that cannot
// be written.
int run_program(const std::function<int()>& body);

// What this process is about to do, for the message when memory runs out: "building the model". Lives as long as the
// process.
void begin_step(const char* step);

// One line on stderr: "troupe: warning: ...".
void warn(const std::string& text);

// From now on the process ends without waiting for its threads: one of them is inside an environment's step, and it may
// run on while the program's objects are destroyed.
void leave_threads_behind();

// The folder of this program.
std::string program_folder();

// Replaces this process by a program that is found beside this one, troupe-learn or troupe-bench, with the same
// arguments. Throws ConfigError when it cannot.
[[noreturn]] void continue_as(std::string_view program, char** arguments);

}  // namespace troupe
