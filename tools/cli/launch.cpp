#include "tools/cli/launch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>

#include "runtime/base/child_process.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/machine.h"
#include "runtime/base/output.h"
#include "runtime/stats/console.h"
#include "tools/cli/torch_check.h"

namespace troupe {

namespace {

std::atomic<const char*> current_step = "starting";

// Judged by the text too, because LibTorch has no exception type for this.
bool is_out_of_memory(const std::exception& failure) {
  const std::string_view what = failure.what();
  return dynamic_cast<const std::bad_alloc*>(&failure) != nullptr || what.find("can't allocate memory") != what.npos ||
         what.find("out of memory") != what.npos;
}

bool is_out_of_threads(const std::exception& failure) {
  const auto* refused = dynamic_cast<const std::system_error*>(&failure);
  return refused != nullptr && refused->code() == std::errc::resource_unavailable_try_again;
}

std::atomic<bool> threads_left_behind = false;

// Every thread has a stack of the size `ulimit -s`. One that is too small causes a segmentation fault.
void require_stack() {
  constexpr rlim_t kLeast = 128 << 10;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kLeast)
    throw ConfigError("`ulimit -s` allows stacks of " + std::to_string(limit.rlim_cur >> 10) + " KiB, at least " +
                      std::to_string(kLeast >> 10) + " KiB are needed: raise it");
}

// LibTorch ends the process if it cannot determine the working directory.
void require_working_folder() {
  std::error_code failed;
  if (std::filesystem::current_path(failed).empty())
    throw ConfigError("the working directory cannot be read: " + failed.message() + "; change to one that exists");
}

// What can still be allocated: less than the machine has, if `ulimit -v` leaves less.
std::string memory_left() {
  const uint64_t memory = available_memory(), space = available_address_space();
  return space < memory ? "`ulimit -v` leaves " + format_bytes(space) : format_bytes(memory) + " are available here";
}

// The line about a failure that is nobody's mistake.
std::string text_of(const std::exception& failure) {
  if (is_out_of_threads(failure))
    return "cannot start a thread: raise `ulimit -u`, `-v`, `-d` or the container's limit of processes";
  if (is_out_of_memory(failure)) return "out of memory while " + std::string(current_step) + "; " + memory_left();
  return std::string("internal error: ") + failure.what();
}

// Memory that is freed when there is no more, for the line that says so.
std::unique_ptr<std::array<char, 1 << 18>> reserve;

// In place of std::abort() when an exception ends a thread: a failure to allocate or to start a thread in one of
// LibTorch or CAF, which catch none.
[[noreturn]] void on_terminate() {
  reserve.reset();
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    const bool known = is_out_of_threads(failure) || is_out_of_memory(failure);
    const std::string line = "troupe: " + text_of(failure) + '\n';
    if (write(STDERR_FILENO, line.data(), line.size()) < 0 || known) _exit(kExitFailure);
  } catch (...) {  // NOLINT(bugprone-empty-catch): nothing is known about it
  }
  std::abort();
}

void tell(const std::string& mistake) {
  begin_closing_lines();
  print_error("troupe: " + mistake);
}

int exit_code_of(const std::function<int()>& body) {
  try {
    require_stack();
    const int code = body();
    std::cout.flush();
    if (std::cout) return code;
    tell("the output cannot be written");
    return kExitFailure;
  } catch (const ConfigError& mistake) {
    tell(mistake.what());
    return kExitUserMistake;
  } catch (const IoError& refused) {
    tell(refused.what());
    return kExitFailure;
  } catch (const std::exception& failure) {
    reserve.reset();
    tell(text_of(failure));
    return kExitFailure;
  }
}

// Throws ConfigError if `ulimit -v` does not allow LibTorch to be loaded: that ends a program before its first line.
void require_torch_fits(const std::string& program) {
  const uint64_t space = available_address_space();
  if (space == std::numeric_limits<uint64_t>::max()) return;
  constexpr std::chrono::seconds kLoading{60};
  constexpr int kNotLoaded = 127;
  ChildProcess probe({program, "version"}, {});
  if (probe.wait(kLoading) && probe.exit_code().value_or(kNotLoaded) != kNotLoaded) return;
  throw ConfigError("`ulimit -v` leaves " + format_bytes(space) +
                    " of address space, in which LibTorch cannot be loaded: raise it");
}

}  // namespace

int run_program(const std::function<int()>& body) {
  // A write beyond the limit of `ulimit -f` then fails, like one to a full disk, instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  reserve = std::make_unique<std::array<char, 1 << 18>>();
  std::set_terminate(on_terminate);
  hold_standard_descriptors();
  restore_library_path();
  const int code = exit_code_of(body);
  std::cout.flush();  // also after an exception; std::cerr has no buffer
  if (threads_left_behind) _exit(code);
  return code;
}

void leave_threads_behind() { threads_left_behind = true; }

void begin_step(const char* step) { current_step = step; }

void warn(const std::string& text) { print_error("troupe: warning: " + text); }

std::string program_folder() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? "." : program.parent_path().string();
}

void continue_as(std::string_view program, char** arguments) {
  require_working_folder();
  const std::string path = program_folder() + "/" + std::string(program);
  try {
    require_torch(path, arguments[1]);
  } catch (const ConfigError& refused) {
    if (std::string_view(refused.what()).find("failed to map") != std::string_view::npos) require_torch_fits(path);
    throw;
  }
  require_torch_fits(path);
  execv(path.c_str(), arguments);
  const int error = errno;
  throw ConfigError(path + ": cannot be started: " + std::generic_category().message(error) + "; `troupe " +
                    arguments[1] + "` needs it beside troupe" +
                    (error == ENOENT ? ": build the target " + std::string(program) : ""));
}

}  // namespace troupe
