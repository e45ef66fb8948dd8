#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "runtime/base/errors.h"

namespace troupe {

std::string nfc(std::string_view text) {
  // ASCII is unchanged.
  if (std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; })) return std::string(text);
  uint8_t* result = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<uint8_t, decltype(&std::free)> owner(result, &std::free);
  TROUPE_CHECK(size >= 0, utf8proc_errmsg(size), text.size());
  return {reinterpret_cast<const char*>(result), static_cast<size_t>(size)};
}

}  // namespace troupe
