#pragma once
// Numbers in answers, and answers without white space. Pure functions; any thread.

#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// The value of a decimal number such as -3, +0.50 or 1,234.5, if the whole text is one; commas separate groups of three
// digits. The result is its shortest spelling, "0.5", so that equal texts are equal numbers, whatever their size.
std::optional<std::string> number_in(std::string_view text);

// The text without white space at both ends.
std::string_view trimmed(std::string_view text);

// The last number in a text: 42 in "6 * 7 = 42." A minus is a sign unless a digit, a letter or a closing parenthesis is
// before it, as in "8-3".
std::optional<std::string> last_number_in(std::string_view text);

}  // namespace troupe
