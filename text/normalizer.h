#pragma once
// Unicode normalisation. Pure; any thread.

#include <string>
#include <string_view>

namespace troupe {

// The text, which must be UTF-8, in normalisation form C.
std::string nfc(std::string_view text);

}  // namespace troupe
