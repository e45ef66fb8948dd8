#include "text/added_tokens.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace troupe {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    TROUPE_CHECK(!token.content.empty(), token.id);
    by_first_byte_[static_cast<uint8_t>(token.content[0])].push_back({token.content, token.id});
  }
  for (std::vector<Entry>& entries : by_first_byte_)
    std::ranges::stable_sort(entries, std::ranges::greater{}, [](const Entry& entry) { return entry.content.size(); });
}

const AddedTokens::Entry* AddedTokens::match(std::string_view rest) const {
  for (const Entry& entry : by_first_byte_[static_cast<uint8_t>(rest[0])])
    if (rest.starts_with(entry.content)) return &entry;
  return nullptr;
}

std::vector<TextPart> AddedTokens::split(std::string_view text) const {
  std::vector<TextPart> parts;
  size_t begin = 0;  // of the text after the last token
  for (size_t at = 0; at < text.size();) {
    const Entry* entry = match(text.substr(at));
    if (entry == nullptr) {
      ++at;
      continue;
    }
    if (at > begin) parts.push_back({text.substr(begin, at - begin)});
    parts.push_back({text.substr(at, entry->content.size()), entry->id});
    at += entry->content.size();
    begin = at;
  }
  if (begin < text.size()) parts.push_back({text.substr(begin)});
  return parts;
}

}  // namespace troupe
