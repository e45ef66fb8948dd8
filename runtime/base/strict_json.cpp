#include "runtime/base/strict_json.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

constexpr long kMaxExponent = 1'000'000'000;

// "SOURCE:line:column" of the byte before `position` (nlohmann counts the bytes read, the offending one included).
std::string place_of(std::string_view text, size_t position, const std::string& source) {
  const std::string_view before = text.substr(0, position == 0 ? 0 : position - 1);
  size_t line = 1, column = 1;
  for (const char c : before) {
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n' ? 1 : 0;
  }
  return source + ':' + std::to_string(line) + ':' + std::to_string(column);
}

// nlohmann's message without its preamble and without the text it has just read: "unexpected '}'; expected string
// literal".
std::string reason_of(std::string what) {
  const size_t overflow = what.find("number overflow");
  if (overflow != std::string::npos) return what.substr(overflow);
  const size_t preamble = what.find(" - ");
  if (preamble != std::string::npos) what.erase(0, preamble + 3);
  const size_t read = what.find("; last read: ");
  const size_t wanted = what.starts_with("invalid comment") ? std::string::npos : what.rfind("; expected ");
  if (read != std::string::npos)
    what.erase(read, wanted == std::string::npos || wanted < read ? std::string::npos : wanted - read);
  return what;
}

// Advice about a frequent mistake, judged by the word around the offending byte; empty if none fits.
std::string hint_for(std::string_view text, size_t position, JsonComments comments) {
  const auto in_word = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  size_t at = std::min(position == 0 ? 0 : position - 1, text.size());
  while (at > 0 && at <= text.size() && in_word(text[at - 1])) --at;
  const std::string_view word = text.substr(at);
  if (comments == JsonComments::ignored && word.starts_with('#')) return "comments begin with //, not with #";
  if (comments == JsonComments::refused && (word.starts_with('/') || word.starts_with('#')))
    return "JSON has no comments";
  if (word.starts_with('.') && word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1])) != 0) {
    const std::string_view number = word.substr(0, word.find_first_not_of("0123456789eE+-", 1));
    return (at > 0 && text[at - 1] == '-' ? "write -0" : "write 0") + printable(number);
  }
  if (word.starts_with('\'')) return "JSON strings are in double quotes";
  for (const std::string_view not_finite : {"NaN", "nan", "Inf", "inf"})
    if (word.starts_with(not_finite)) return "JSON has no NaN and no Infinity";
  for (const std::string_view python : {"True", "False", "None"})
    if (word.starts_with(python)) return "JSON spells true, false and null in small letters";
  return "";
}

// The digits of the whole number that `text` represents, without its sign; nullopt if it is not whole or has more
// digits than a 64-bit number.
std::optional<std::string> whole_digits(std::string_view text) {
  constexpr long kMostDigits = 20;
  const size_t exponent_at = text.find_first_of("eE");
  std::string digits;
  long point = -1;  // digits before the point
  for (const char c : text.substr(0, exponent_at)) {
    if (c == '.') point = static_cast<long>(digits.size());
    if (c >= '0' && c <= '9') digits += c;
  }
  if (point < 0) point = static_cast<long>(digits.size());
  const size_t first = digits.find_first_not_of('0'), last = digits.find_last_not_of('0');
  if (first == std::string::npos) return "0";
  long exponent = 0;
  if (exponent_at != std::string_view::npos) {
    std::string_view spelled = text.substr(exponent_at + 1);
    if (spelled.starts_with('+')) spelled.remove_prefix(1);
    if (std::from_chars(spelled.data(), spelled.data() + spelled.size(), exponent).ec != std::errc()) return {};
  }
  if (std::abs(exponent) > kMaxExponent) return {};
  const long whole = point + exponent - static_cast<long>(first), needed = static_cast<long>(last - first) + 1;
  if (whole < needed || whole > kMostDigits) return {};
  return digits.substr(first, static_cast<size_t>(needed)) + std::string(static_cast<size_t>(whole - needed), '0');
}

class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view text, const std::string& source, JsonComments comments, bool exact)
      : text_(text), source_(source), comments_(comments), exact_(exact) {}

  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& spelled) override {
    return put(exact_ ? exact_number(spelled, value, source_ + (path().empty() ? "" : ": " + path())) : Json(value));
  }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    open_.back().key = name;
    if (!open_.back().keys.insert(name).second) throw ConfigError(source_ + ": " + path() + ": the key is there twice");
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string reason = reason_of(error.what());
    const std::string hint = follows_comma(position, reason)
                                 ? std::string("a comma before ") + text_[position - 1] + ", remove it"
                                 : hint_for(text_, position, comments_);
    throw ConfigError(place_of(text_, position, source_) +
                      ": not valid JSON: " + (hint.empty() ? printable(reason, 160) : hint));
  }

 private:
  // A container around the current place. Only the innermost one grows, so the pointers to all of them stay valid.
  struct Open {
    Json* value;
    std::string key;  // the one last seen, if it is an object
    std::set<std::string> keys = {};
  };

  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    const Open& around = open_.back();
    if (around.value->is_array()) return around.value->emplace_back(std::move(value));
    // Not operator[], which would search all keys before this one.
    return around.value->get_ref<Json::object_t&>().emplace_back(around.key, std::move(value)).second;
  }

  // Whether the error is a bracket that closes an object or array directly after a comma.
  bool follows_comma(size_t position, const std::string& reason) const {
    if (open_.empty() || position == 0 || position > text_.size()) return false;
    const Json& around = *open_.back().value;
    if (around.empty()) return false;
    const bool key_wanted = reason.ends_with("expected string literal");
    return text_[position - 1] == '}' ? around.is_object() && key_wanted
                                      : text_[position - 1] == ']' && around.is_array();
  }

  bool put(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth))
      throw ConfigError(source_ + ": nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    Json& placed = place(std::move(container));
    open_.push_back({&placed, ""});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string path() const {
    std::string text;
    for (const Open& each : open_) text += (text.empty() || each.key.empty() ? "" : ".") + printable(each.key);
    return text;
  }

  std::string_view text_;
  const std::string& source_;
  JsonComments comments_;
  bool exact_;
  Json root_;
  std::vector<Open> open_;
};

Json parse(std::string_view text, const std::string& source, JsonComments comments, bool exact) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.starts_with(kByteOrderMark))  // nlohmann/json would skip it
    throw ConfigError(place_of(text, 1, source) + ": not valid JSON: a second byte order mark");
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    throw ConfigError(source + ": is empty, expected a JSON value");
  const size_t zero = text.find('\0');  // nlohmann/json takes it for the end of the text and ignores what follows
  if (zero != std::string_view::npos)
    throw ConfigError(place_of(text, zero + 1, source) + ": not valid JSON: a zero byte");
  TreeBuilder builder(text, source, comments, exact);
  Json::sax_parse(text, &builder, nlohmann::detail::input_format_t::json, /*strict=*/true,
                  comments == JsonComments::ignored);
  return builder.take();
}

}  // namespace

Json exact_number(std::string_view text, double value, const std::string& where) {
  constexpr double kMostExact = 0x1p53, kMost = 0x1p64;
  if (value != std::trunc(value) || std::abs(value) >= kMost) return value;
  const std::optional<std::string> digits = whole_digits(text);
  if (!digits)
    throw InexactNumber(where + ": " + printable(text) + " cannot be represented, the nearest number is " +
                        Json(value).dump());
  if (std::abs(value) < kMostExact) return value;
  const std::string spelled = (value < 0 ? "-" : "") + *digits;
  const char *begin = spelled.data(), *end = begin + spelled.size();
  uint64_t whole = 0;
  int64_t negative = 0;
  if (value > 0 && std::from_chars(begin, end, whole).ec == std::errc()) return whole;
  if (value < 0 && std::from_chars(begin, end, negative).ec == std::errc()) return negative;
  return value;
}

Json parse_strict(std::string_view text, const std::string& source, JsonComments comments) {
  return parse(text, source, comments, /*exact=*/true);
}

Json parse_stored(std::string_view text, const std::string& path) {
  try {
    return parse(text, path, JsonComments::refused, /*exact=*/false);
  } catch (const ConfigError& error) {
    throw IoError::of_line(error.what());
  }
}

Json parse_or_null(std::string_view text) {
  try {
    return parse(text, "", JsonComments::refused, /*exact=*/false);
  } catch (const ConfigError&) {
    return {};
  }
}

}  // namespace troupe
