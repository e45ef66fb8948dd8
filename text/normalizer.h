#pragma once
// Unicode normalisation. Pure; any thread.

#include <string>
#include <string_view>

namespace troupe {

// The text, which must be UTF-8, in normalisation form C as Hugging Face's `tokenizers` computes it: by Unicode 9.
// Characters that take part in normalisation only since a later version (combining marks of scripts that were added, up
// to Unicode 15) stay where they are, so that vocabularies get the texts that they were made for.
std::string nfc(std::string_view text);

}  // namespace troupe
