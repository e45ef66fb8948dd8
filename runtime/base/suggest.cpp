#include "runtime/base/suggest.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iterator>

namespace troupe {

size_t edit_distance(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = cost[i - 1][j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      cost[i][j] = std::min({changed, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestWord = 200;  // the table is quadratic, and names are much shorter
  if (word.empty() || word.size() > kLongestWord) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kNamed = 3, kShortestPart = 2;
  std::vector<std::string> found;
  const auto take = [&](const auto& fits) {
    if (found.empty()) std::ranges::copy_if(candidates, std::back_inserter(found), fits);
  };
  const std::string end = '.' + std::string(word);
  take([&](const std::string& each) { return !word.empty() && each.ends_with(end); });
  const std::string near = found.empty() ? closest(word, candidates) : "";
  if (!near.empty()) found.push_back(near);
  take([&](const std::string& each) { return word.size() >= kShortestPart && each.find(word) != each.npos; });
  if (found.empty()) return "";
  found.resize(std::min(found.size(), kNamed));
  std::string text = "did you mean " + found.front();
  for (size_t i = 1; i < found.size(); ++i) text += (i + 1 == found.size() ? " or " : ", ") + found[i];
  return text + '?';
}

namespace {

// The length of the UTF-8 character at the start of `text`; 0 if there is none (RFC 3629).
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return at(i) >= low && at(i) <= high;
  };
  const unsigned first = at(0);
  if (first < 0x80) return text.empty() ? 0 : 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef)  // neither overlong nor half of a UTF-16 pair
    return follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf) && follows(2) ? 3 : 0;
  if (first >= 0xf0 && first <= 0xf4)
    return follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf) && follows(2) && follows(3) ? 4 : 0;
  return 0;
}

// Whether the UTF-8 character changes the direction of the text around it, so that a line would show in another order:
// U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069.
bool is_direction_mark(std::string_view character) {
  if (character == "\u061c" || character == "\u200e" || character == "\u200f") return true;
  return (character >= "\u202a" && character <= "\u202e") || (character >= "\u2066" && character <= "\u2069");
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_length(text.substr(at));
    if (at + std::max<size_t>(length, 1) > limit) return result + "...";
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool control = byte < 0x20 || byte == 0x7f;
    // U+0080 to U+009F are control characters too, which some terminals interpret.
    const bool wide_control = length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0;
    if (length > 0 && !control && !wide_control && !is_direction_mark(text.substr(at, length))) {
      result += text.substr(at, length);
      at += length;
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    result += escaped;
    ++at;
  }
  return result;
}

std::string strange_character(std::string_view text) {
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    length = utf8_length(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    if (length == 0) return "the byte " + printable(text.substr(at, 1)) + ", which is not UTF-8";
    if (byte < 0x20 || byte == 0x7f) return "the control character " + printable(text.substr(at, 1));
  }
  return "";
}

}  // namespace troupe
