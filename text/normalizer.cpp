#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "runtime/base/errors.h"
#include "text/utf8.h"

namespace troupe {

namespace {

struct Range {
  char32_t first, last;
};

// Unicode 10 to 15: characters with a combining class, and U+11930, with which U+11938 is composed. U+11A7, which
// utf8proc up to 2.8 drops after a Hangul syllable. In order.
constexpr std::array kUnchanged = std::to_array<Range>({
    {0x07FD, 0x07FD},   {0x0898, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},   {0x0C3C, 0x0C3C},
    {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},   {0x11A7, 0x11A7},   {0x1715, 0x1715},   {0x1ABF, 0x1ACE},
    {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F},
    {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
});

bool is_unchanged(char32_t code) {
  const auto* range = std::ranges::lower_bound(kUnchanged, code, {}, &Range::last);
  return range != kUnchanged.end() && code >= range->first;
}

// Appends a text without unchanged characters.
void append_normalized(std::string_view text, std::string& out) {
  if (text.empty()) return;
  uint8_t* result = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<uint8_t, decltype(&std::free)> owner(result, &std::free);
  TROUPE_CHECK(size >= 0, utf8proc_errmsg(size), text.size());
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

}  // namespace

std::string nfc(std::string_view text) {
  // ASCII is unchanged.
  if (std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; })) return std::string(text);
  std::string out;
  size_t begin = 0;  // of what has not been appended
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = utf8_character(text, at).value();
    if (is_unchanged(character.code)) {
      append_normalized(text.substr(begin, at - begin), out);
      out += text.substr(at, character.bytes);
      begin = at + character.bytes;
    }
    at += character.bytes;
  }
  append_normalized(text.substr(begin), out);
  return out;
}

}  // namespace troupe
