#pragma once
// The 256 characters by which vocabularies of byte-level BPE spell bytes, as introduced with GPT-2
// (https://github.com/openai/gpt-2): printable bytes of Latin-1 are themselves, the others follow from U+0100. A space
// is "Ġ". Pure functions; any thread.

#include <optional>
#include <string>
#include <string_view>

namespace troupe {

// The bytes that a token of the vocabulary spells; nullopt if one of its characters is not one of the 256.
std::optional<std::string> bytes_of_spelling(std::string_view token);

// The spelling of bytes.
std::string spelling_of_bytes(std::string_view bytes);

}  // namespace troupe
