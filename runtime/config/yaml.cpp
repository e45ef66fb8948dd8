#include "runtime/config/yaml.h"

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>
#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

constexpr size_t kMaxValues = 100'000;

// A number that `text` spells in the core schema, or null. Throws std::out_of_range for one that no double holds, and
// as exact_number() does.
Json number_of(const std::string& text, const std::string& where) {
  static const std::regex decimal("[-+]?[0-9]+"), octal("0o[0-7]+"), hexadecimal("0x[0-9a-fA-F]+"),
      real("[-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?");
  constexpr size_t kLongest = 400;  // std::regex recurses with the length
  if (text.size() > kLongest) return nullptr;
  const auto whole = [](std::string_view digits, int base) -> Json {
    int64_t signed_value = 0;
    uint64_t value = 0;
    const char* end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, signed_value, base).ec == std::errc()) return signed_value;
    if (std::from_chars(digits.data(), end, value, base).ec == std::errc()) return value;
    return nullptr;
  };
  const std::string_view unsigned_text = std::string_view(text).substr(text.starts_with('+') ? 1 : 0);
  if (std::regex_match(text, octal) || std::regex_match(text, hexadecimal)) {
    const Json value = whole(std::string_view(text).substr(2), text[1] == 'o' ? 8 : 16);
    if (value.is_null()) throw std::out_of_range(text);
    return value;
  }
  if (std::regex_match(text, decimal))
    if (const Json value = whole(unsigned_text, 10); !value.is_null()) return value;
  if (!std::regex_match(text, real)) return nullptr;
  double value = 0;
  const auto read = std::from_chars(unsigned_text.data(), unsigned_text.data() + unsigned_text.size(), value);
  if (read.ec == std::errc()) return exact_number(text, value, where);
  const double slow = std::strtod(text.c_str(), nullptr);  // from_chars reports numbers near 0 too
  if (!std::isfinite(slow)) throw std::out_of_range(text);
  return exact_number(text, slow, where);
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> words) {
  return std::ranges::any_of(words, [&](const char* word) { return text == word; });
}

class YamlTree : public YAML::EventHandler {
 public:
  explicit YamlTree(const std::string& source) : source_(source) {}

  Json take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { put(mark, nullptr, anchor); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    const bool plain = tag != "!";
    if (wants_key())
      take_key(mark, value);
    else
      put(mark, plain ? resolved(mark, value) : Json(value), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark, "an alias inside of what it stands for");
    count(mark, found->second.size);
    put(mark, found->second.value, 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Json::array());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Json::object());
  }
  void OnMapEnd() override { close(); }

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    throw ConfigError(place_of(mark) + ": " + what);
  }

 private:
  // A list or map whose end has not come.
  struct Open {
    Json value;
    YAML::anchor_t anchor;
    size_t values_before;             // how many values there were when it began
    std::optional<std::string> key;   // of a map: the one whose value is next
    std::set<std::string> keys = {};  // of a map
    YAML::Mark mark;
  };
  struct Anchored {
    Json value;
    size_t size;  // values in it
  };

  std::string place_of(const YAML::Mark& mark) const {
    return source_ + ':' + std::to_string(mark.line + 1) + ':' + std::to_string(mark.column + 1);
  }

  bool wants_key() const { return !open_.empty() && open_.back().value.is_object() && !open_.back().key; }

  void take_key(const YAML::Mark& mark, const std::string& key) {
    Open& map = open_.back();
    if (!map.keys.insert(key).second) refuse(mark, "the key " + printable(key) + " is there twice");
    map.key = key;
  }

  void count(const YAML::Mark& mark, size_t more) {
    values_ += more;
    if (values_ > kMaxValues) refuse(mark, "holds more than " + std::to_string(kMaxValues) + " values");
  }

  Json resolved(const YAML::Mark& mark, const std::string& text) const {
    if (is_one_of(text, {"true", "True", "TRUE"})) return true;
    if (is_one_of(text, {"false", "False", "FALSE"})) return false;
    const std::string unsigned_text = text.substr(text.starts_with('+') || text.starts_with('-') ? 1 : 0);
    if (is_one_of(unsigned_text, {".inf", ".Inf", ".INF"}) || is_one_of(text, {".nan", ".NaN", ".NAN"}))
      refuse(mark, printable(text) + " is not a finite number");
    try {
      const Json number = number_of(text, place_of(mark));
      return number.is_null() ? Json(text) : number;
    } catch (const std::out_of_range&) {
      refuse(mark, printable(text) + " is too large a number");
    }
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") refuse(mark, "the tag " + printable(tag) + " is not supported");
  }

  void put(const YAML::Mark& mark, Json value, YAML::anchor_t anchor) {
    if (wants_key()) refuse(mark, "a key that is no text");
    count(mark, 1);
    if (anchor != 0) anchors_[anchor] = {value, 1};
    place(std::move(value));
  }

  void place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& around = open_.back(); around.value.is_array()) {
      around.value.push_back(std::move(value));
    } else {  // not operator[], which would search all keys before this one
      around.value.get_ref<Json::object_t&>().emplace_back(*around.key, std::move(value));
      around.key.reset();
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Json container) {
    refuse_tag(mark, tag);
    if (wants_key()) refuse(mark, "a list or a map as a key; is a bracket not closed?");
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth))
      refuse(mark, "nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    count(mark, 1);
    open_.push_back({std::move(container), anchor, values_ - 1, {}, {}, mark});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (done.anchor != 0) anchors_[done.anchor] = {done.value, values_ - done.values_before};
    place(std::move(done.value));
  }

  const std::string& source_;
  Json root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  size_t values_ = 0;
};

// Where a byte that no YAML text holds is, or npos. yaml-cpp takes U+0004 for the end of the text.
size_t control_character(const std::string& text) {
  const auto found = std::ranges::find_if(
      text, [](unsigned char c) { return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f; });
  return static_cast<size_t>(found - text.begin());
}

void require_characters(const std::string& text, const std::string& source) {
  if (const size_t at = control_character(text); at < text.size())
    throw ConfigError(source + ": not valid YAML: a control character, byte " + std::to_string(at + 1));
  try {
    (void)Json(text).dump();
  } catch (const Json::exception&) {
    throw ConfigError(source + ": not valid YAML: ill-formed UTF-8");
  }
}

// A key * must be in quotes, because a plain * begins an alias.
std::string alias_hint(const std::string& text, const YAML::Mark& mark) {
  const bool inside = mark.pos >= 0 && static_cast<size_t>(mark.pos) <= text.size();
  const size_t begin = inside ? text.substr(0, static_cast<size_t>(mark.pos)).find_last_of("\n{,") + 1 : text.size();
  const size_t word = text.find_first_not_of(" \t", begin);
  const bool star = word < text.size() && (text.substr(word, 2) == "*:" || text.substr(word, 2) == "* ");
  return star ? "; a key * is written in quotes: \"*\"" : "";
}

// What usually causes an error of yaml-cpp, whose texts name what its parser misses.
std::string cause_of(const std::string& text, const YAML::Exception& error) {
  const std::string star = alias_hint(text, error.mark);
  if (!star.empty()) return star;
  const std::string_view message = error.msg;
  if (message == YAML::ErrorMsg::END_OF_MAP_FLOW || message == YAML::ErrorMsg::END_OF_SEQ_FLOW)
    return "; is a brace or a bracket not closed?";
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i <= error.mark.line && std::getline(lines, line); ++i)
    if (line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string::npos && i + 2 > error.mark.line)
      return "; tabs cannot indent, use spaces";
  if (message == YAML::ErrorMsg::END_OF_MAP || message == YAML::ErrorMsg::END_OF_SEQ)
    return "; is this line indented differently from those above it, or a brace not closed?";
  if (message == YAML::ErrorMsg::MAP_VALUE)
    return "; is this line indented further than the one above it, or a text with \": \" not in quotes?";
  return "";
}

}  // namespace

Json parse_yaml(const std::string& text, const std::string& source) {
  require_characters(text, source);
  std::istringstream stream(text);
  YamlTree builder(source), second(source);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) throw ConfigError(source + ": is empty, expected a YAML value");
    Json root = builder.take();
    if (parser.HandleNextDocument(second))
      throw ConfigError(source + ": holds several documents, or text after its value; expected one document");
    return root;
  } catch (const YAML::Exception& error) {
    builder.refuse(error.mark, "not valid YAML: " + printable(error.msg, 160) + cause_of(text, error));
  }
}

}  // namespace troupe
