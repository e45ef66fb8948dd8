#pragma once
// Looking up the names of fields, and what to say about a name that is none. Pure functions; any thread.

#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/fields.h"

namespace troupe {

// What another library calls a field of ours. One name may stand for several fields.
struct Alias {
  std::string_view name;
  std::string_view path;
};
const std::vector<Alias>& field_aliases();

// The field of that path, or nullptr.
const Field* find_field(const std::vector<Field>& fields, std::string_view path);
// Whether some field's section has that name.
bool is_section(const std::vector<Field>& fields, std::string_view name);
// "id, params, rows": the keys of a section; of the top level when `section` is empty.
std::string keys_of(const std::vector<Field>& fields, std::string_view section);
// The line for a path that is no field: "algorithm.gama: unknown key, did you mean algorithm.gamma?"
std::string unknown_key(const std::vector<Field>& fields, const std::string& path);

}  // namespace troupe
