#pragma once
// The text of the ConfigError that an action throws.

#include <string>

#include "runtime/base/errors.h"

namespace troupe::test {

// "no error" if it throws none.
std::string config_error_of(const auto& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace troupe::test
