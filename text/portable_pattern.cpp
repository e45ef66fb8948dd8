// portable_pattern() of text/split_pattern.h.

#include <algorithm>
#include <array>
#include <cctype>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "text/split_pattern.h"

namespace troupe {

namespace {

// The White_Space property of Unicode.
constexpr std::string_view kWhiteSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

// Unassigned characters (C, Cn) differ between versions of Unicode; surrogates (Cs) are not in UTF-8.
constexpr std::array<std::string_view, 33> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P",  "Pc", "Pd",
    "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "Cc", "Cf"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alphanumeric(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 0x80;
}
bool is_punctuation(char c) { return c > ' ' && c < 0x7F && !is_alphanumeric(c); }

// Reads the expression from left to right.
class Translation {
 public:
  Translation(std::string_view regex, const std::string& path) : regex_(regex), path_(path) {}

  std::string run() {
    while (at_ < regex_.size()) next();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(size_t at, size_t count) const {
    throw ConfigError(path_ + ": \"" + printable(regex_, 200) + "\" contains \"" + printable(regex_.substr(at, count)) +
                      "\" at byte " + std::to_string(at) + ", which is not supported");
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < regex_.size() ? regex_[at_ + ahead] : '\0'; }
  bool begins(std::string_view text) const { return regex_.substr(at_).starts_with(text); }
  void copy(size_t count) {
    out_ += regex_.substr(at_, count);
    at_ += count;
  }
  bool caseless() const { return !groups_.empty() && groups_.back(); }

  void next() {
    const char c = peek();
    if (c == '(') return open_group();
    if (c == ')') return close_group();
    if (c == '[') return character_class();
    if (c == '\\') return escape(false);
    if (c == '?' || c == '*' || c == '+') return quantifier();
    if (c == '{') return repetition();
    if (c == '.' || c == '^' || c == '$' || c == ']' || c == '}' || c == '\0') refuse(at_, 1);
    if (caseless()) check_caseless(c);
    if (!caseless() || c == '|') caseless_before_ = '\0';
    copy(1);
  }

  // Letters of ASCII match the same characters everywhere, except that in Oniguruma two of them can match one
  // character, as "ss" matches "ß" and "fi" the ligature.
  void check_caseless(char c) {
    if (static_cast<unsigned char>(c) > 0x7F) refuse(at_, 1);
    const char lower = static_cast<char>(std::tolower(c));
    const std::string_view followers = caseless_before_ == 'f' ? "fil" : caseless_before_ == 's' ? "st" : "";
    if (followers.find(lower) != std::string_view::npos) refuse(at_, 1);
    caseless_before_ = lower;
  }

  void open_group() {
    bool without_case = caseless();
    if (begins("(?i:")) {
      without_case = true;
      copy(4);
    } else if (begins("(?:") || begins("(?=") || begins("(?!")) {
      copy(3);
    } else if (begins("(?") || begins("(*")) {
      refuse(at_, 4);
    } else {
      copy(1);
    }
    groups_.push_back(without_case);
  }

  void close_group() {
    if (groups_.empty()) refuse(at_, 1);
    groups_.pop_back();
    copy(1);
  }

  void quantifier() {
    copy(1);
    if (peek() == '+') copy(1);  // possessive
    if (peek() == '?' || peek() == '*' || peek() == '+') refuse(at_ - 1, 2);
  }

  // {m} {m,} {m,n}
  void repetition() {
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < regex_.size() && is_digit(regex_[end])) ++end;
      return end > begin;
    };
    const bool number = digits();
    if (number && end < regex_.size() && regex_[end] == ',') {
      ++end;
      digits();
    }
    if (!number || end >= regex_.size() || regex_[end] != '}') refuse(at_, end - at_ + 1);
    copy(end - at_ + 1);
    if (peek() == '?' || peek() == '*' || peek() == '+' || peek() == '{') refuse(at_ - 1, 2);
  }

  void escape(bool in_class) {
    caseless_before_ = '\0';
    const char c = peek(1);
    if (c == 'r' || c == 'n' || c == 't' || is_punctuation(c)) return copy(2);
    if (c == 's' || (c == 'S' && !in_class)) {
      const std::string negation = c == 'S' ? "^" : "";
      out_ += in_class ? std::string(kWhiteSpace) : '[' + negation + std::string(kWhiteSpace) + ']';
      at_ += 2;
      return;
    }
    if (c == 'p' || c == 'P') return category();
    refuse(at_, 2);
  }

  // \p{L}
  void category() {
    const size_t close = regex_.find('}', at_);
    if (peek(2) != '{' || close == std::string_view::npos) refuse(at_, 3);
    const std::string_view name = regex_.substr(at_ + 3, close - at_ - 3);
    if (caseless() || std::ranges::find(kCategories, name) == kCategories.end()) refuse(at_, close - at_ + 1);
    copy(close - at_ + 1);
  }

  void character_class() {
    const size_t begin = at_;
    if (caseless()) refuse(at_, 1);
    copy(peek(1) == '^' ? 2 : 1);
    if (peek() == ']') refuse(begin, at_ - begin + 1);
    while (peek() != ']') {
      if (at_ >= regex_.size()) refuse(begin, regex_.size() - begin);
      if (peek() == '\\') {
        escape(true);
      } else if (peek() == '[' || begins("&&") || peek() == '\0') {
        refuse(at_, 2);
      } else if (peek() == '-') {
        if (!is_alphanumeric(regex_[at_ - 1]) || !is_alphanumeric(peek(1)) || peek(2) == '-') refuse(at_, 3);
        copy(2);
      } else {
        copy(1);
      }
    }
    copy(1);
  }

  std::string_view regex_;
  const std::string& path_;
  size_t at_ = 0;
  std::string out_;
  char caseless_before_ = '\0';  // the literal before this place, if it was in a group without case
  std::vector<bool> groups_;     // open groups: whether case is ignored inside
};

}  // namespace

std::string portable_pattern(std::string_view regex, const std::string& path) { return Translation(regex, path).run(); }

}  // namespace troupe
