#pragma once
// Converts the state that an actor of a deterministic run saves in a checkpoint to bytes and back. Works for every type
// with inspect(). Pure functions; floating-point numbers go in as WireDouble or Array.

#include <stdexcept>
#include <string>

#include <caf/binary_deserializer.hpp>
#include <caf/serializer_impl.hpp>

#include "runtime/caf/inspect.h"
#include "runtime/stats/ledger.h"

namespace troupe {

template <class I> typename I::result_type inspect(I& f, Ledger& x) {
  return f(x.produced, x.trained, x.dropped_stale, x.dropped_full, x.lost_in_crash, x.left_over, x.filtered, x.unscored,
           x.verifier_failed, x.baselines, x.waiting);
}

template <class... Values>
std::string to_bytes(const Values&... values) {
  std::string bytes;
  caf::serializer_impl<std::string> sink(static_cast<caf::execution_unit*>(nullptr), bytes);
  const caf::error error = sink(const_cast<Values&>(values)...);
  TROUPE_CHECK(!error, "a state cannot be saved");
  return bytes;
}

// Inverse of to_bytes(). Throws std::runtime_error that begins with `whose` when the bytes hold other types.
template <class... Values>
void from_bytes(const std::string& bytes, const std::string& whose, Values&... values) {
  caf::binary_deserializer source(static_cast<caf::execution_unit*>(nullptr), bytes.data(), bytes.size());
  if (source(values...) || source.remaining() != 0)
    throw std::runtime_error(whose + ": its saved state of " + std::to_string(bytes.size()) +
                             " bytes is not of this program");
}

}  // namespace troupe
