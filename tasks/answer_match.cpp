#include "tasks/answer_match.h"

#include <algorithm>
#include <string>

namespace troupe {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

size_t digits_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}

struct Number {
  std::string digits;  // the shortest spelling of the value, such as "0.5"
  size_t bytes = 0;    // of the text
};

// Without zeros that do not count.
std::string shortest(const std::string& digits) {
  const size_t point = std::min(digits.find('.'), digits.size());
  const size_t first = std::min(digits.find_first_not_of('0'), point);
  std::string result = first == point ? "0" : digits.substr(first, point - first);
  const size_t last = digits.find_last_not_of('0');
  if (last != std::string::npos && last > point) result += digits.substr(point, last + 1 - point);
  return result;
}

std::string signed_number(bool negative, const std::string& digits) {
  return negative && digits != "0" ? '-' + digits : digits;
}

// The longest number without a sign that begins at `at`.
std::optional<Number> number_at(std::string_view text, size_t at) {
  size_t end = at + digits_at(text, at);
  std::string digits(text.substr(at, end - at));
  if (!digits.empty() && digits.size() <= 3)
    while (end < text.size() && text[end] == ',' && digits_at(text, end + 1) == 3) {
      digits += text.substr(end + 1, 3);
      end += 4;
    }
  if (end < text.size() && text[end] == '.' && digits_at(text, end + 1) > 0) {
    const size_t fraction = digits_at(text, end + 1);
    digits += text.substr(end, 1 + fraction);
    end += 1 + fraction;
  }
  if (digits.empty()) return std::nullopt;
  return Number{shortest(digits), end - at};
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<std::string> number_in(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto number = number_at(text, 0);
  if (!number || number->bytes != text.size()) return std::nullopt;
  return signed_number(negative, number->digits);
}

std::optional<std::string> last_number_in(std::string_view text) {
  std::optional<std::string> last;
  for (size_t at = 0; at < text.size();) {
    const bool begins = is_digit(text[at]) || (text[at] == '.' && digits_at(text, at + 1) > 0);
    const auto number = begins ? number_at(text, at) : std::nullopt;
    if (!number) {
      at += begins ? std::max<size_t>(digits_at(text, at), 1) : 1;
      continue;
    }
    const bool minus = at > 0 && text[at - 1] == '-';
    const char before = at > 1 ? text[at - 2] : ' ';
    const bool sign = minus && !is_digit(before) && !is_letter(before) && before != ')';
    last = signed_number(sign, number->digits);
    at += number->bytes;
  }
  return last;
}

}  // namespace troupe
