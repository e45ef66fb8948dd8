#pragma once
// Calls of the functions of a library (envs/c_abi/library.h). Which function runs is noted, so that the end of a
// process inside one can be explained; C++ exceptions that leave one become std::runtime_error. Any thread.

#include <cxxabi.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace troupe {

// The functions of envs/c_abi/troupe_env.h, and the loading of the file. The numbers are read by another process.
enum class LibraryFunction : uint32_t {
  none = 0,
  loading = 1,
  version = 2,
  describe = 3,
  create = 4,
  destroy = 5,
  reset = 6,
  step = 7,
  observe = 8,
  mask = 9,
  error = 10,
  save = 11,
  load = 12,
  render = 13,
};

// "troupe_env_step", "its loading"; "none of its functions" for any other number.
const char* name_of(LibraryFunction function);
inline const char* name_of(uint32_t number) { return name_of(static_cast<LibraryFunction>(number)); }

// The numbers of functions of a library, in memory that two processes share.
struct LibraryNotes {
  uint32_t running = 0;  // 0: none runs
  uint32_t last = 0;     // the one that ran last, or runs
};
// Lets this process write its notes to `place` too; null: nowhere. It must call libraries from one thread only.
void note_calls_at(volatile LibraryNotes* place);

// From now on, when a signal or exit() ends this process inside a function of a library, a line on stderr names the
// library, the function and the signal. For processes that run libraries in threads of their own.
void announce_crashes();

// Notes for the lifetime of the object that a function of the library `path` runs. For code that reads what the
// function has returned by pointers; call_library() does it for calls.
class NotedCall {
 public:
  NotedCall(const std::string& path, LibraryFunction function);
  ~NotedCall();
  NotedCall(const NotedCall&) = delete;
  NotedCall& operator=(const NotedCall&) = delete;
};

// Ends the process because the function that runs has called pthread_exit(): the caller cannot go on.
[[noreturn]] void end_with_thread();

// The result of `body`, which calls `function` of the library `path`.
template <class Body>
auto call_library(const std::string& path, LibraryFunction function, Body body) {
  const NotedCall noted(path, function);
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    end_with_thread();
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string(name_of(function)) + " threw a C++ exception: " + error.what());
  } catch (...) {
    throw std::runtime_error(std::string(name_of(function)) + " threw a C++ exception of unknown type");
  }
}

}  // namespace troupe
