#pragma once
// What the user probably meant. Pure functions; any thread.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Least number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, letter case
// ignored (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, the first of equals; empty when none is near enough to be a slip of the hand.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

// Outside text made fit for one line of an error: control characters and bytes that are not UTF-8 escaped, cut after at
// most `limit` bytes, between characters.
std::string printable(std::string_view text, size_t limit = 60);

}  // namespace troupe
