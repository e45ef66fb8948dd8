#pragma once
// Suggestions for misspelt words, and text made safe for messages. Pure functions; any thread.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// The least number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, ignoring
// case (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, the first of equals; empty if none is near enough to be a typing error.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

// "did you mean a?" or "did you mean a, b or c?": the candidates of which `word` is the last part ("kl" of
// "learner.kl"), else the nearest one, else those that contain it. Empty if there is none.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// Text from outside, made safe for one line of a message: control characters and bytes that are not UTF-8 are escaped,
// and it is cut between characters after at most `limit` bytes.
std::string printable(std::string_view text, size_t limit = 60);

// The first character that does not belong into a name: "the control character \x0a" or "the byte \xe9, which is not
// UTF-8". Empty if there is none.
std::string strange_character(std::string_view text);

}  // namespace troupe
