#include "text/utf8.h"

#include "runtime/base/errors.h"
#include "tests/support/test.h"
#include "text/byte_alphabet.h"

using namespace troupe;

TEST_CASE("utf8: every code point is written and read back, and nothing else is valid") {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    std::string text;
    append_utf8(text, code);
    const auto character = utf8_character(text, 0);
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (surrogate ? character.has_value() : (!character || character->code != code || character->bytes != text.size()))
      FAIL_CHECK(code_point_text(code));
  }
}

TEST_CASE("utf8: the first wrong byte is named") {
  CHECK_FALSE(utf8_error("").has_value());
  CHECK_FALSE(utf8_error(std::string("a\0b", 3)).has_value());
  CHECK(utf8_error("ab\xff") == 2);
  CHECK(utf8_error("\xc3\xa9\xc3") == 2);
  CHECK(utf8_error("\xc0\xaf") == 0);          // overlong
  CHECK(utf8_error("\xed\xa0\x80") == 0);      // surrogate
  CHECK(utf8_error("\xf4\x90\x80\x80") == 0);  // above U+10FFFF
  CHECK_THROWS_WITH_AS(require_utf8("abc\xff"), "text: byte 3 (0xff) is not UTF-8, expected a text in UTF-8",
                       ConfigError);
}

TEST_CASE("utf8_lossy: each longest beginning of a character becomes one replacement") {
  const std::string r = "\xEF\xBF\xBD";
  CHECK(utf8_lossy("a\xC3\xA9") == "a\xC3\xA9");
  // The example of the Unicode standard, table 3-8.
  CHECK(utf8_lossy("\xF1\x80\x80\xE1\x80\xC2"
                   "b\x80"
                   "c\x80\xBF"
                   "d") == r + r + r + "b" + r + "c" + r + r + "d");
  CHECK(utf8_lossy("\xC0\xAF\xE0\x80\xBF") == r + r + r + r + r);
}

TEST_CASE("byte_alphabet: every byte has a spelling of its own that is read back") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  CHECK(bytes_of_spelling(spelling_of_bytes(all)) == all);
  CHECK(spelling_of_bytes(" \n!~") == "ĠĊ!~");
  CHECK_FALSE(bytes_of_spelling("a b").has_value());
  CHECK_FALSE(bytes_of_spelling("日").has_value());
}
