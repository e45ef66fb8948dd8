#include "runtime/run_folder/json_scan.h"

#include <charconv>

#include <nlohmann/json.hpp>

namespace troupe {

namespace {

constexpr int kMostLevels = 64;

class Scanner {
 public:
  Scanner(std::string_view json, const OnScalar& on_scalar) : json_(json), on_scalar_(on_scalar) {}

  bool whole_object() {
    skip_space();
    if (peek() != '{' || !object(0)) return false;
    skip_space();
    return at_ == json_.size();
  }

 private:
  char peek() const { return at_ < json_.size() ? json_[at_] : '\0'; }
  bool take(char expected) {
    if (peek() != expected) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n') ++at_;
  }

  // With its quotes; empty where there is none.
  std::string_view string() {
    const size_t begin = at_;
    if (!take('"')) return {};
    for (size_t end = json_.find('"', at_); end != json_.npos; end = json_.find('"', end + 1)) {
      size_t slashes = 0;
      while (json_[end - 1 - slashes] == '\\') ++slashes;
      if (slashes % 2 != 0) continue;
      at_ = end + 1;
      return json_.substr(begin, at_ - begin);
    }
    return {};
  }

  bool value(int level) {
    if (peek() == '{') return object(level);
    if (peek() == '[') return array(level);
    const size_t begin = at_;
    if (peek() == '"') {
      if (string().empty()) return false;
    } else {
      at_ = std::min(json_.find_first_of(",]} \t\r\n", at_), json_.size());
      const std::string_view text = json_.substr(begin, at_ - begin);
      if (text != "null" && text != "true" && text != "false" && !scalar_number(text)) return false;
    }
    on_scalar_(path_, json_.substr(begin, at_ - begin));
    return true;
  }

  // A member or an element whose name is appended to the path meanwhile.
  bool below(std::string_view name, int level) {
    const size_t before = path_.size();
    if (before > 0) path_ += '.';
    path_ += name;
    skip_space();
    const bool good = value(level + 1);
    path_.resize(before);
    skip_space();
    return good;
  }

  bool member(int level) {
    skip_space();
    const std::string_view key = string();
    if (key.empty()) return false;
    skip_space();
    if (!take(':')) return false;
    const std::string_view plain = key.substr(1, key.size() - 2);
    return plain.find('\\') == plain.npos ? below(plain, level) : below(scalar_text(key), level);
  }

  bool object(int level) {
    if (level == kMostLevels || !take('{')) return false;
    skip_space();
    if (take('}')) return true;
    do {
      if (!member(level)) return false;
    } while (take(','));
    return take('}');
  }

  bool array(int level) {
    if (level == kMostLevels || !take('[')) return false;
    skip_space();
    if (take(']')) return true;
    size_t index = 0;
    do {
      if (!below(std::to_string(index++), level)) return false;
    } while (take(','));
    return take(']');
  }

  std::string_view json_;
  const OnScalar& on_scalar_;
  size_t at_ = 0;
  std::string path_;
};

}  // namespace

bool scan_json(std::string_view json, const OnScalar& on_scalar) { return Scanner(json, on_scalar).whole_object(); }

std::optional<double> scalar_number(std::string_view scalar) {
  double value = 0;
  const bool begins = !scalar.empty() && (scalar.front() == '-' || (scalar.front() >= '0' && scalar.front() <= '9'));
  if (!begins) return std::nullopt;
  const auto [end, error] = std::from_chars(scalar.data(), scalar.data() + scalar.size(), value);
  return error == std::errc() && end == scalar.data() + scalar.size() ? std::optional(value) : std::nullopt;
}

std::string scalar_text(std::string_view scalar) {
  if (scalar == "null") return "";
  if (scalar.empty() || scalar.front() != '"') return std::string(scalar);
  const auto json = nlohmann::json::parse(scalar, nullptr, /*allow_exceptions=*/false);
  return json.is_string() ? json.get<std::string>() : std::string(scalar.substr(1, scalar.size() - 2));
}

}  // namespace troupe
