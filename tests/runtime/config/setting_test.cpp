// The reader of values that the settings of config files, algorithms and environments share.
#include "runtime/config/setting.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/config/fields.h"
#include "runtime/config/setting_json.h"
#include "tests/support/test.h"

using namespace troupe;
using Json = nlohmann::ordered_json;
using Kind = Setting::Kind;

namespace {

constexpr Setting kShare = {.key = "share", .low = 0, .high = 1, .open_high = true, .help = "a share"};
constexpr Setting kCount = {.key = "count", .kind = Kind::integer, .low = 1, .help = "how many"};
constexpr Setting kBound = {.key = "bound", .low = 0, .open_low = true, .help = "a bound", .unset = "none"};
constexpr Setting kForm = {
    .key = "form", .kind = Kind::text, .default_value = 1, .choices = kWords<"round", "square">, .help = "a form"};
constexpr Setting kSizes = {.key = "sizes", .kind = Kind::integers, .low = 1, .high = 9, .help = "sizes"};

std::string refusal(const Setting& setting, const char* value) {
  try {
    if (setting.kind == Kind::integers)
      read_integers(setting, Json::parse(value), "here");
    else
      read_value(setting, Json::parse(value), "here");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("setting: a value is read in the type of its kind") {
  CHECK(std::get<double>(read_value(kShare, 0, "here")) == 0.0);
  CHECK(std::get<int64_t>(read_value(kCount, 1e6, "here")) == 1'000'000);
  CHECK(std::get<int64_t>(read_value(kCount, Json::parse("2.0"), "here")) == 2);
  CHECK(std::get<std::string>(read_value(kForm, "round", "here")) == "round");
  CHECK(std::holds_alternative<std::monostate>(read_value(kBound, nullptr, "here")));
  CHECK(read_integers(kSizes, Json::parse("[1, 9.0]"), "here") == std::vector<int64_t>{1, 9});
}

TEST_CASE("setting: a value that does not fit is refused with what would be accepted") {
  CHECK(refusal(kShare, "1") == "here: 1 is out of range, expected a number in [0, 1)");
  CHECK(refusal(kShare, "true") == "here: true is a boolean, expected a number in [0, 1)");
  CHECK(refusal(kShare, "null") == "here: null is not a value, expected a number in [0, 1)");
  CHECK(refusal(kShare, "{}") == "here: an object is given, expected a number in [0, 1)");
  CHECK(refusal(kCount, "1.5") == "here: 1.5 is not whole, expected an integer of at least 1");
  CHECK(refusal(kCount, "1e30") == "here: 1e+30 is out of range, expected an integer of at least 1");
  CHECK(refusal(kBound, "0") == "here: 0 is out of range, expected a number above 0, or null");
  CHECK(refusal(kForm, "\"oval\"") == "here: \"oval\" is unknown, expected one of: round, square");
  CHECK(refusal(kSizes, "[10]") == "here[0]: 10 is out of range, expected an integer in [1, 9]");
  for (const double not_finite : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    CHECK_THROWS_AS(checked(kShare, not_finite, "here"), ConfigError);
    CHECK_THROWS_AS(checked(kCount, not_finite, "here"), ConfigError);
  }
  for (const double refused : {std::nan(""), -HUGE_VAL}) CHECK_THROWS_AS(checked(kBound, refused, "here"), ConfigError);
  CHECK(std::get<double>(checked(kBound, HUGE_VAL, "here")) == HUGE_VAL);  // infinity means no upper limit
}

TEST_CASE("setting: default, help and schema follow from the description") {
  CHECK(default_text(kForm) == "\"square\"");
  CHECK(default_text(kShare) == "0.0");
  CHECK(help_text(kBound) == "a bound; unset: none");
  CHECK(range_text(kCount) == ">= 1");
  const Json schema = setting_schema(kBound, "null");
  CHECK(schema == Json::parse(R"({"description": "a bound; unset: none", "default": null, "type": ["number", "null"],
                                  "exclusiveMinimum": 0})"));
  CHECK(setting_schema(kShare, "0.0").at("exclusiveMaximum") == 1);
}

TEST_CASE("setting: the error about an unknown key names the nearest one, or all, or says that there are none") {
  const Setting settings[] = {kShare, kCount};
  CHECK(unknown_key("a.b", "cuont", "clip", settings) == "a.b.cuont: unknown key, did you mean a.b.count?");
  CHECK(unknown_key("a.b", "xyzzy", "clip", settings) == "a.b.xyzzy: unknown key, clip has: share, count");
  CHECK(unknown_key("a.b", "x", "clip", std::span<const Setting>()) == "a.b.x: unknown key, clip has no parameters");
}

TEST_CASE("fields: the kind follows from the member, and the section's change applies if a setting has none") {
  std::optional<double> bound;
  bool on = false;
  Fields fields;
  const Section s(fields, "part", "runtime", Change::at_resume);
  s.add(bound, "bound", between(0, 1), "a bound", {.unset = "none"});
  s.add(on, "on", anything(), "whether", {.change = Change::while_running});
  CHECK(fields[0].path == "part.bound");
  CHECK(fields[0].setting.kind == Kind::number);
  CHECK(fields[1].setting.kind == Kind::boolean);
  CHECK(change_of(fields, "part.bound") == Change::at_resume);
  CHECK(change_of(fields, "part.on") == Change::while_running);
  read_fields(fields, Json::parse(R"({"part": {"bound": 0.5, "on": true}})"), "file");
  CHECK(bound == 0.5);
  CHECK(fields_json(fields) == "{\n  \"part\": {\n    \"bound\": 0.5,\n    \"on\": true\n  }\n}\n");
  override_field(fields, "part.bound=null");
  CHECK_FALSE(bound.has_value());
  CHECK(fields_json(fields).find("\"bound\": null") != std::string::npos);
}
