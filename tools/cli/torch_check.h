#pragma once
// The check before a program that uses LibTorch is started: which LibTorch it would load, and of which version. Without
// it the program would end with a line of the dynamic loader, or crash. Main thread, before others are started.

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// What the dynamic loader says it would load for a program.
struct LoadedLibraries {
  std::string torch;                 // the path of libtorch_cpu.so; empty if it is not found
  std::vector<std::string> missing;  // the names of the libraries that are not found
  std::string failure;               // why it would load none of them, or not all; empty otherwise
};

// Reads the lines that a program prints when it is started with LD_TRACE_LOADED_OBJECTS=1.
LoadedLibraries read_loader_lines(const std::vector<std::string>& lines);

// The version of the PyTorch or LibTorch in the folder `root`, such as "2.13.0+cpu" or, where only the headers name it,
// "2.13"; empty if nothing names it.
std::string torch_version(const std::string& root);

// The version that this program was built with, like "2.13".
std::string_view torch_built_with();

// Returns if `program` would load the LibTorch it was built with. The environment variable TROUPE_TORCH names its
// folder; the variables of this process are then set so that the program finds it, until restore_library_path().
// Throws ConfigError with what to install or to set for `troupe COMMAND`. Takes some milliseconds.
void require_torch(const std::string& program, std::string_view command);

// Undoes in the started program what require_torch() has set, so that its own children do not inherit it. Does nothing
// in any other process.
void restore_library_path();

}  // namespace troupe
