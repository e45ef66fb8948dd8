#include "runtime/base/errors.h"

namespace troupe {

std::string to_string(Fault fault) {
  switch (fault) {
    case Fault::none: return "none";
    case Fault::forward_failed: return "forward_failed";
    case Fault::shutting_down: return "shutting_down";
    case Fault::stale: return "stale";
    case Fault::full: return "full";
    case Fault::bad_message: return "bad_message";
    case Fault::signature_mismatch: return "signature_mismatch";
    case Fault::not_ready: return "not_ready";
    case Fault::peer_gone: return "peer_gone";
    case Fault::env_failed: return "env_failed";
    case Fault::io_failed: return "io_failed";
    case Fault::internal: return "internal";
    case Fault::not_restored: return "not_restored";
    case Fault::incompatible: return "incompatible";
    case Fault::score_failed: return "score_failed";
  }
  return "unknown";
}

namespace detail {

void fail_check(const char* expression, const char* file, int line, const std::string& values) {
  std::ostringstream out;
  out << "check failed: " << expression;
  if (!values.empty()) out << " with" << values;
  out << " (" << file << ':' << line << ')';
  throw InvariantError(out.str());
}

}  // namespace detail
}  // namespace troupe
