#pragma once
// The three kinds of errors: a user's mistake (ConfigError), a broken invariant, which is a bug (TROUPE_CHECK), and an
// expected failure between actors (Fault, sent as an ordinary reply). Usable from any thread.

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

namespace troupe {

// A user's mistake, found before any actor starts. what() is one line: "<path>: <what is wrong>, <what would be
// right>".
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The contents of a checkpoint do not fit the object into which they are loaded.
class NotRestored : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Calls `load`; any exception that it throws becomes NotRestored.
template <class Load>
void restoring(Load load) {
  try {
    load();
  } catch (const std::exception& error) {
    throw NotRestored(error.what());
  }
}

// A broken invariant: a bug. Ends the actor in which it is thrown.
class InvariantError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// An expected failure between actors. The numbers are part of messages: only append to them.
enum class Fault : uint8_t {
  none = 0,
  forward_failed = 1,      // a forward pass threw; the context has the error
  shutting_down = 2,       // the peer is about to end; do not ask again
  stale = 3,               // older than the lag cap allows
  full = 4,                // no room, or no credit
  bad_message = 5,         // shapes, types or sizes that do not fit the run
  signature_mismatch = 6,  // the weights of the two sides differ; the context names the first difference
  not_ready = 7,           // nothing to serve yet; ask again
  peer_gone = 8,           // the peer ended or is unreachable
  env_failed = 9,          // an environment threw or returned non-finite numbers
  io_failed = 10,          // an operation on a file or socket failed
  internal = 11,           // an uncaught exception; the context has what()
  not_restored = 12,       // the state of an actor in a checkpoint does not fit; the context says why
  incompatible = 13,       // the messages of the peer can never fit the run; joining again is useless
  score_failed = 14,       // answers could not be scored; the context has the error
};

// The name of a fault, for logs.
std::string to_string(Fault fault);

namespace detail {
[[noreturn]] void fail_check(const char* expression, const char* file, int line, const std::string& values);

template <class... Values>
std::string join_values(const Values&... values) {
  std::ostringstream out;
  ((out << ' ' << values), ...);
  return out.str();
}
}  // namespace detail

}  // namespace troupe

// Throws InvariantError with the condition and the given values when the condition is false.
#define TROUPE_CHECK(condition, ...)                                                                            \
  do {                                                                                                          \
    if (!(condition)) [[unlikely]]                                                                              \
      ::troupe::detail::fail_check(#condition, __FILE__, __LINE__, ::troupe::detail::join_values(__VA_ARGS__)); \
  } while (false)
