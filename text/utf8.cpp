#include "text/utf8.h"

#include <array>
#include <cstdio>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

struct Form {
  size_t bytes;       // of the whole character; 0 for a byte that begins none
  uint8_t low, high;  // accepted range of the second byte
};

// The form that a first byte announces (table 3-7 of the Unicode standard).
Form form_of(uint8_t first) {
  if (first < 0x80) return {1, 0, 0};
  if (first < 0xC2) return {0, 0, 0};
  if (first < 0xE0) return {2, 0x80, 0xBF};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first < 0xF0) return {3, 0x80, 0xBF};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first < 0xF4) return {4, 0x80, 0xBF};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

uint8_t byte_at(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

// Bytes from `at` that begin a character of this form; `form.bytes` when it is complete.
size_t matching_bytes(std::string_view text, size_t at, const Form& form) {
  size_t count = 1;
  for (; count < form.bytes && at + count < text.size(); ++count) {
    const uint8_t byte = byte_at(text, at + count);
    const uint8_t low = count == 1 ? form.low : 0x80, high = count == 1 ? form.high : 0xBF;
    if (byte < low || byte > high) break;
  }
  return count;
}

}  // namespace

std::optional<Utf8Character> utf8_character(std::string_view text, size_t at) {
  const Form form = form_of(byte_at(text, at));
  if (form.bytes == 0 || matching_bytes(text, at, form) < form.bytes) return std::nullopt;
  char32_t code = form.bytes == 1 ? byte_at(text, at) : byte_at(text, at) & (0x7Fu >> form.bytes);
  for (size_t i = 1; i < form.bytes; ++i) code = code << 6 | (byte_at(text, at + i) & 0x3Fu);
  return Utf8Character{code, form.bytes};
}

std::optional<size_t> utf8_error(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto character = utf8_character(text, at);
    if (!character) return at;
    at += character->bytes;
  }
  return std::nullopt;
}

void require_utf8(std::string_view text) {
  const auto at = utf8_error(text);
  if (!at) return;
  std::array<char, 8> hex{};
  std::snprintf(hex.data(), hex.size(), "0x%02x", byte_at(text, *at));
  throw ConfigError("text: byte " + std::to_string(*at) + " (" + hex.data() +
                    ") is not UTF-8, expected a text in UTF-8");
}

std::string utf8_lossy(std::string_view bytes) {
  if (!utf8_error(bytes)) return std::string(bytes);
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const Form form = form_of(byte_at(bytes, at));
    const size_t count = form.bytes == 0 ? 1 : matching_bytes(bytes, at, form);
    if (count == form.bytes)
      text += bytes.substr(at, count);
    else
      append_utf8(text, 0xFFFD);
    at += count;
  }
  return text;
}

std::string code_point_text(char32_t code) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "U+%04X", static_cast<unsigned>(code));
  return text.data();
}

void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

}  // namespace troupe
