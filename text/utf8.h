#pragma once
// Characters of UTF-8 texts. Pure functions; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

struct Utf8Character {
  char32_t code = 0;  // code point
  size_t bytes = 0;   // 1 to 4
};

// The character that begins at byte `at`, which must be inside the text; nullopt if there is no valid one: overlong
// forms, surrogates and codes above U+10FFFF are not valid.
std::optional<Utf8Character> utf8_character(std::string_view text, size_t at);

// The byte at which the text stops being UTF-8; nullopt if all of it is.
std::optional<size_t> utf8_error(std::string_view text);

// Throws ConfigError "text: byte 17 (0xff) is not UTF-8, ..." unless the text is UTF-8.
void require_utf8(std::string_view text);

// The text with U+FFFD in place of each longest sequence of bytes that begins a character but does not complete it, and
// of each other byte that is not UTF-8 (the replacement that the Unicode standard recommends, chapter 3.9).
std::string utf8_lossy(std::string_view bytes);

// "U+00E9".
std::string code_point_text(char32_t code);

// Appends a code point, which must be valid.
void append_utf8(std::string& text, char32_t code);

}  // namespace troupe
