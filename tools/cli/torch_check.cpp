#include "tools/cli/torch_check.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "runtime/base/child_process.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "TROUPE_TORCH";
constexpr const char* kPath = "LD_LIBRARY_PATH";
constexpr const char* kPathBefore = "TROUPE_LIBRARY_PATH_BEFORE";
constexpr const char* kTrace = "LD_TRACE_LOADED_OBJECTS";
constexpr const char* kLibrary = "libtorch_cpu.so";
constexpr std::string_view kBuiltWith = TROUPE_TORCH_VERSION;  // major and minor, like "2.13"
constexpr size_t kShown = 300;                                 // bytes of a path in a message

// In the following, NOLINT: the process has one thread.

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

void set_variable(const char* name, const std::string& value) {
  setenv(name, value.c_str(), /*overwrite=*/1);  // NOLINT(concurrency-mt-unsafe)
}

void unset_variable(const char* name) { unsetenv(name); }  // NOLINT(concurrency-mt-unsafe)

bool is_there(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

// The contents of a small text file, cut after `kMost` bytes; empty if it cannot be read.
std::string text_of(const fs::path& file) {
  constexpr uint64_t kMost = 1 << 16;
  try {
    return posix_disk().open_read(file)->read(0, kMost);
  } catch (const IoError&) {
    return "";
  }
}

// What follows the first `marker` in its line, without quotes; empty if the marker is not there.
std::string after(const std::string& text, std::string_view marker) {
  const size_t at = text.find(marker);
  if (at == std::string::npos) return "";
  std::string value = text.substr(at + marker.size(), text.find('\n', at) - at - marker.size());
  std::erase_if(value, [](char c) { return c == '\'' || c == '"' || c == '\r' || c == ' '; });
  return value;
}

// "2.13" of "2.13.0+cpu".
std::string minor_of(const std::string& version) {
  return version.substr(0, version.find_first_not_of("0123456789", version.find('.') + 1));
}

bool has_old_abi(const fs::path& root) {
  return text_of(root / "share/cmake/Torch/TorchConfig.cmake").find("_GLIBCXX_USE_CXX11_ABI=0") != std::string::npos;
}

// What the loader says about `program`; nothing if it does not answer.
std::optional<LoadedLibraries> ask_loader(const std::string& program) {
  constexpr std::chrono::seconds kPatience{20};
  std::vector<std::string> lines;
  std::optional<LoadedLibraries> answer;
  set_variable(kTrace, "1");
  try {
    ChildProcess child({program}, {}, [&](std::string_view line) { lines.emplace_back(line); });
    if (child.wait(kPatience)) {
      answer = read_loader_lines(lines);
      if (child.exit_code() != 0) answer->failure = lines.empty() ? "its loader " + child.state() : lines.back();
    }
  } catch (const IoError&) {  // its start will show the reason
  }
  unset_variable(kTrace);
  return answer;
}

// Whether this program is that of an installed Python package, whose environment has or lacks a PyTorch.
bool is_in_python_package(const std::string& program) {
  return is_there(fs::path(program).parent_path().parent_path() / "__init__.py");
}

// Words for the end of a message: how to get the LibTorch that is needed.
std::string remedy(const std::string& program) {
  const std::string version(kBuiltWith);
  return (is_in_python_package(program) ? "pip install \"torch==" + version + ".*\""
                                        : std::string("build troupe again")) +
         ", or set " + kFolder + " to the folder of a PyTorch " + version;
}

// Makes the loader search the folder that the user has chosen before all others.
void use_chosen_folder() {
  const std::string root = variable(kFolder);
  if (root.empty()) return;
  const std::string shown = std::string(kFolder) + ": \"" + printable(root, kShown) + '"';
  if (!is_there(fs::path(root) / "lib" / kLibrary))
    throw ConfigError(shown + " has no lib/" + kLibrary + ", expected the folder of a PyTorch " +
                      std::string(kBuiltWith) + "; `python3 -c \"import torch; print(*torch.__path__)\"` prints it");
  if (root.find_first_of(":;") != std::string::npos)
    throw ConfigError(shown + " contains a : or ;, which the dynamic loader cannot search; use a link to it");
  const std::string before = variable(kPath), folder = fs::absolute(root) / "lib";
  set_variable(kPathBefore, before);
  set_variable(kPath, before.empty() ? folder : folder + ':' + before);
}

// What is wrong with the libraries that would be loaded, and what to do; empty if nothing is.
std::string problem_with(const LoadedLibraries& libraries, const std::string& program) {
  const std::string version(kBuiltWith), needed = "needs PyTorch " + version;
  if (!libraries.failure.empty())
    return "cannot be started: " + printable(libraries.failure, kShown) + "; install PyTorch " + version +
           " again, or set " + kFolder + " to the folder of another one";
  if (libraries.torch.empty())
    return needed +
           (is_in_python_package(program) ? ", and this Python environment has none: "
                                          : ", with which it was built, and " TROUPE_TORCH_ROOT " has none: ") +
           remedy(program);
  const fs::path root = fs::path(libraries.torch).parent_path().parent_path();
  const std::string found = ", and the one in " + printable(root.lexically_normal().string(), kShown),
                    actual = torch_version(root);
  if (!actual.empty() && minor_of(actual) != version)
    return needed + found + " is " + printable(actual) + ": " + remedy(program);
  if (has_old_abi(root))
    return needed + " with the new C++ ABI" + found + " has the old one (_GLIBCXX_USE_CXX11_ABI=0): set " + kFolder +
           " to the folder of another one";
  if (libraries.missing.empty()) return "";
  const std::string& library = libraries.missing.front();
  if (library.starts_with("libtorch") || library.starts_with("libc10"))
    return needed + " for CUDA" + found + " lacks " + library + ": install that, or set " + kFolder +
           " to the folder of one";
  return needed + found + " needs " + library + ", which is not found: install it again with its dependencies";
}

}  // namespace

LoadedLibraries read_loader_lines(const std::vector<std::string>& lines) {
  LoadedLibraries libraries;
  for (const std::string& line : lines) {
    const size_t arrow = line.find(" => "), start = line.find_first_not_of(" \t");
    if (start == std::string::npos) continue;
    if (arrow == std::string::npos) {
      // The others name the loader itself and what the kernel gives, or warn.
      if (libraries.failure.empty() && line.find("' not found (required by ") != std::string::npos)
        libraries.failure = line;
      continue;
    }
    const std::string name = line.substr(start, arrow - start);
    std::string path = line.substr(arrow + 4);
    if (path == "not found") {
      libraries.missing.push_back(name);
      continue;
    }
    if (const size_t address = path.rfind(" (0x"); address != std::string::npos) path.resize(address);
    if (name == kLibrary) libraries.torch = path;
  }
  return libraries;
}

std::string torch_version(const std::string& root) {
  const fs::path folder = root;
  if (std::string version = after(text_of(folder / "version.py"), "__version__ = "); !version.empty()) return version;
  for (const char* header : {"include/torch/headeronly/version.h", "include/torch/csrc/api/include/torch/version.h"}) {
    const std::string text = text_of(folder / header), major = after(text, "#define TORCH_VERSION_MAJOR "),
                      minor = after(text, "#define TORCH_VERSION_MINOR ");
    if (!major.empty() && !minor.empty()) return major + '.' + minor;
  }
  return "";
}

void require_torch(const std::string& program, std::string_view command) {
  use_chosen_folder();
  const std::optional<LoadedLibraries> libraries = ask_loader(program);
  if (!libraries) return;  // its start will show why
  const bool uses_torch = !libraries->torch.empty() || std::ranges::count(libraries->missing, kLibrary) != 0;
  if (!uses_torch && libraries->failure.empty()) return;
  const std::string problem = problem_with(*libraries, program);
  if (!problem.empty()) throw ConfigError("`troupe " + std::string(command) + "` " + problem);
}

std::string_view torch_built_with() { return kBuiltWith; }

void restore_library_path() {
  const char* before = std::getenv(kPathBefore);  // NOLINT(concurrency-mt-unsafe)
  if (before == nullptr) return;
  if (*before == '\0')
    unset_variable(kPath);
  else
    set_variable(kPath, before);
  unset_variable(kPathBefore);
}

}  // namespace troupe
