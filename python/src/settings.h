#pragma once
// Settings of a table entry as passed from Python: bool, int, float or str by key.

#include <pybind11/stl.h>

#include <map>
#include <string>
#include <string_view>

#include "algorithms/common/parameters.h"

namespace troupe::python {

using Settings = std::map<std::string, ParameterValue>;

// The values of the declared parameters with these settings; errors begin with `path`.
inline ParameterValues values_of(std::span<const Setting> declared, std::string_view path, const Settings& settings) {
  ParameterValues values(declared);
  for (const auto& [key, value] : settings) values.set(path, key, value);
  return values;
}

}  // namespace troupe::python
