#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace troupe {

namespace {

constexpr char32_t kFirstMoved = 0x100;
constexpr size_t kCharacters = 0x144;  // 256 + the 68 bytes that are not themselves

constexpr bool is_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The character of each byte.
constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = kFirstMoved;
  for (uint32_t byte = 0; byte < 256; ++byte) characters[byte] = is_itself(byte) ? byte : next++;
  return characters;
}

constexpr std::array<char32_t, 256> kCharacterOf = make_characters();

// The byte of each character, or -1.
constexpr std::array<int16_t, kCharacters> make_bytes() {
  std::array<int16_t, kCharacters> bytes{};
  bytes.fill(-1);
  for (int16_t byte = 0; byte < 256; ++byte) bytes[kCharacterOf[static_cast<size_t>(byte)]] = byte;
  return bytes;
}

constexpr std::array<int16_t, kCharacters> kByteOf = make_bytes();

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const auto character = utf8_character(token, at);
    if (!character || character->code >= kCharacters || kByteOf[character->code] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOf[character->code]);
    at += character->bytes;
  }
  return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) append_utf8(token, kCharacterOf[static_cast<uint8_t>(byte)]);
  return token;
}

}  // namespace troupe
