#pragma once
// What the two programs share: how they end, and how one hands over to the other.

#include <functional>
#include <string>

namespace troupe {

inline constexpr int kExitFailure = 1;        // our bug, or the machine's trouble
inline constexpr int kExitUserMistake = 2;    // ConfigError
inline constexpr int kExitInterrupted = 130;  // Ctrl-C

// The exit code of `body`; an exception becomes one line on stderr and its exit code, and so does an output that cannot be written.
int run_program(const std::function<int()>& body);

// The folder this program lies in.
std::string program_folder();

// Replaces this process by troupe-learn, found beside this program, with the same arguments. Throws ConfigError when it cannot.
[[noreturn]] void continue_as_learn(char** arguments);

}  // namespace troupe
