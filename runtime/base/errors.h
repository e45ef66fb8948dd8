#pragma once
// The three kinds of trouble, decided once: a user's mistake (ConfigError), a broken invariant of ours (TROUPE_CHECK),
// and expected trouble between actors (Fault, carried as an ordinary reply). Usable from any thread.

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

// What a checkpoint holds does not fit what it is loaded into.
class NotRestored : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What `load` does; whatever it throws becomes NotRestored.
template <class Load>
void restoring(Load load) {
  try {
    load();
  } catch (const std::exception& error) {
    throw NotRestored(error.what());
  }
}

// A broken invariant: our bug. Ends the actor it is thrown in.
class InvariantError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Expected trouble between actors. The numbers travel on the wire: append only.
enum class Fault : uint8_t {
  none = 0,
  forward_failed = 1,      // a policy forward threw; the context holds its text
  shutting_down = 2,       // the peer is leaving; do not ask again
  stale = 3,               // older than the lag bound allows
  full = 4,                // no room, or no credit
  bad_message = 5,         // shapes, types or sizes that do not fit the run
  signature_mismatch = 6,  // the weights of the two sides differ; the context names the first difference
  not_ready = 7,           // nothing to serve yet; ask again
  peer_gone = 8,           // the peer ended or is unreachable
  env_failed = 9,          // an environment threw or returned non-finite numbers
  io_failed = 10,          // a file or socket refused
  internal = 11,           // an exception escaped; the context holds what()
  not_restored = 12,       // what a checkpoint holds of an actor does not fit; the context says why
  incompatible = 13,       // what the peer is built to send does not fit the run; joining again is useless
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

// Throws InvariantError naming the condition and the given values when the condition is false.
#define TROUPE_CHECK(condition, ...)                                                                            \
  do {                                                                                                          \
    if (!(condition)) [[unlikely]]                                                                              \
      ::troupe::detail::fail_check(#condition, __FILE__, __LINE__, ::troupe::detail::join_values(__VA_ARGS__)); \
  } while (false)
