#pragma once
// Looks a name up in a table of this folder. Internal to algorithms/.

#include <span>
#include <string_view>

namespace troupe {

// The index of `name` in `known`. Throws ConfigError:
// <path>: unknown name "clp", did you mean "clip"? (known: clip, none)
// `noun` is the word that the message uses instead of "name".
std::size_t find_name(std::string_view path, std::string_view name, std::span<const std::string_view> known,
                      std::string_view noun = "name");

}  // namespace troupe
