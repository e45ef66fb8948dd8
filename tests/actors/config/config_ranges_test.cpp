// Every field with values at the ends of its range, outside it, and of other types.
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "runtime/config/fields.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// A config file in which one field has the value `text`, which is JSON.
std::string file_with(const Field& field, const std::string& text) {
  const std::string inner = "\"" + std::string(field.key()) + "\": " + text;
  return field.section().empty() ? "{" + inner + "}" : "{\"" + std::string(field.section()) + "\": {" + inner + "}}";
}

std::string error_of(const Field& field, const std::string& text) {
  try {
    parse_config(file_with(field, text), "run.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// Checks that the value is refused with the path, the value (if it is short) and what would be right.
void check_refused(const Field& field, const std::string& text) {
  const std::string error = error_of(field, text);
  CAPTURE(field.path);
  CAPTURE(text);
  CAPTURE(error);
  CHECK(error.starts_with("run.json: " + field.path));
  CHECK(error.find(text == "{}" ? "an object is given" : text) != std::string::npos);
  CHECK(error.ends_with("expected " + expected(field.setting)));
}

void check_accepted(const Field& field, const std::string& text) {
  CAPTURE(field.path);
  CAPTURE(text);
  CHECK(error_of(field, text) == "");
}

bool is_whole(const Field& field) {
  return std::holds_alternative<int64_t*>(field.value) ||
         std::holds_alternative<std::chrono::milliseconds*>(field.value) ||
         std::holds_alternative<std::chrono::microseconds*>(field.value);
}

bool is_real(const Field& field) { return field.setting.kind == Setting::Kind::number; }
bool is_text(const Field& field) { return std::holds_alternative<std::string*>(field.value); }

// The number as the reader prints it.
std::string json_number(double value) { return nlohmann::json(value).dump(); }

}  // namespace

TEST_CASE("ranges: an integer is accepted at both ends of its range and refused one beyond them") {
  RunConfig config;
  size_t fields = 0;
  for (const Field& field : describe(config)) {
    if (!is_whole(field)) continue;
    ++fields;
    const auto low = static_cast<int64_t>(field.setting.low), high = static_cast<int64_t>(field.setting.high);
    REQUIRE(low < high);
    check_accepted(field, std::to_string(low));
    check_accepted(field, std::to_string(high));
    check_refused(field, std::to_string(low - 1));
    check_refused(field, std::to_string(high + 1));
    check_refused(field, "18446744073709551615");
    check_refused(field, "-9223372036854775808");
    CHECK(error_of(field, json_number(static_cast<double>(low) + 0.5)).find(" is not whole, expected ") !=
          std::string::npos);
  }
  CHECK(fields > 30);
}

TEST_CASE("ranges: a number is accepted at closed ends of its range, and refused at open ends and beyond") {
  RunConfig config;
  size_t fields = 0;
  for (const Field& field : describe(config)) {
    if (!is_real(field)) continue;
    ++fields;
    const Setting& l = field.setting;
    const double infinity = std::numeric_limits<double>::infinity();
    const std::string below = json_number(std::nextafter(l.low, -infinity)), low = json_number(l.low),
                      inside_low = json_number(std::nextafter(l.low, infinity)), high = json_number(l.high),
                      inside_high = json_number(std::nextafter(l.high, -infinity)),
                      above = json_number(std::nextafter(l.high, infinity));
    l.open_low ? check_refused(field, low) : check_accepted(field, low);
    l.open_high ? check_refused(field, high) : check_accepted(field, high);
    check_accepted(field, inside_low);
    check_accepted(field, inside_high);
    check_refused(field, below);
    check_refused(field, above);
    check_refused(field, "1e+308");
  }
  CHECK(fields > 25);
}

TEST_CASE("ranges: a string with choices accepts each of them and nothing else") {
  RunConfig config;
  for (const Field& field : describe(config)) {
    if (!is_text(field)) continue;
    for (const std::string_view choice : field.setting.choices) check_accepted(field, '"' + std::string(choice) + '"');
    if (!field.setting.choices.empty()) {
      check_refused(field, "\"\"");
      check_refused(field, "\"" + std::string(field.setting.choices[0]) + " \"");
    }
    if (field.setting.pattern.empty()) continue;
    if (field.path == "generation.stop") continue;  // any text that is not too long
    // In these, nearly every character is allowed.
    const std::map<std::string_view, std::string> refused = {{"name", "a/b"}, {"env.id", ""}};
    const auto found = refused.find(field.path);
    check_refused(field, '"' + (found == refused.end() ? "a b" : found->second) + '"');
  }
}

TEST_CASE("ranges: a list is accepted at its full length and with items at the ends of their range") {
  RunConfig config;
  for (const Field& field : describe(config)) {
    if (!std::holds_alternative<std::vector<int64_t>*>(field.value)) continue;
    const std::string low = std::to_string(static_cast<int64_t>(field.setting.low)),
                      high = std::to_string(static_cast<int64_t>(field.setting.high));
    check_accepted(field, "[]");
    check_accepted(field, "[" + low + ", " + high + "]");
    nlohmann::json full = std::vector<int64_t>(kMaxItems, 1), more = std::vector<int64_t>(kMaxItems + 1, 1);
    check_accepted(field, full.dump());
    CHECK(error_of(field, more.dump()).find(std::to_string(kMaxItems + 1) + " items, expected ") != std::string::npos);
    for (const std::string& item : {std::to_string(static_cast<int64_t>(field.setting.low) - 1),
                                    std::to_string(static_cast<int64_t>(field.setting.high) + 1)})
      CHECK(error_of(field, "[1, " + item + "]").find("[1]: " + item + " is out of range, expected ") !=
            std::string::npos);
  }
}

TEST_CASE("ranges: values of other types are refused for every field") {
  RunConfig config;
  for (const Field& field : describe(config)) {
    const bool flag = std::holds_alternative<bool*>(field.value),
               object = std::holds_alternative<ObjectText>(field.value);
    const bool list = std::holds_alternative<std::vector<int64_t>*>(field.value);
    field.setting.unset.empty() ? check_refused(field, "null") : check_accepted(field, "null");
    if (!flag) check_refused(field, "true");
    if (!object) check_refused(field, "{}");
    if (!list) check_refused(field, "[1]");
    if (!is_text(field)) check_refused(field, "\"1\"");
    if (flag || object || list || is_text(field)) check_refused(field, "7");
  }
}
