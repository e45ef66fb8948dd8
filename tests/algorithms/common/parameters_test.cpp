#include "algorithms/common/parameters.h"

#include <array>
#include <cmath>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr std::array<std::string_view, 2> kForms = {"round", "square"};
constexpr std::array kList = {
    Setting{.key = "width", .default_value = 2, .low = 0, .open_low = true, .aliases = kWords<"breadth", "w">},
    Setting{.key = "share", .default_value = kUnset, .low = 0, .high = 1, .unset = "half"},
    Setting{.key = "count", .kind = Setting::Kind::integer, .default_value = 3, .low = 1},
    Setting{.key = "fast", .kind = Setting::Kind::boolean},
    Setting{.key = "form", .kind = Setting::Kind::text, .default_value = 1, .choices = kForms},
};

}  // namespace

TEST_CASE("parameters: defaults until set, by key or alias; integers are accepted for numbers") {
  ParameterValues values(kList);
  CHECK(values.number("width") == 2);
  CHECK(values.integer("count") == 3);
  CHECK(!values.flag("fast"));
  CHECK(values.text("form") == "square");
  CHECK(values.number_or("share", .7) == .7);
  values.set("test", "w", int64_t{5});
  values.set("test", "count", 1e6);
  CHECK(values.integer("count") == 1'000'000);
  values.set("test", "share", 1.0);
  values.set("test", "fast", true);
  values.set("test", "form", "round");
  CHECK(values.number("width") == 5);
  CHECK(values.number_or("share", .7) == 1);
  values.set("test", "share", std::monostate());
  CHECK(values.number_or("share", .7) == .7);
  CHECK(values.flag("fast"));
  CHECK(values.text("form") == "round");
  CHECK(values.has("share"));
  CHECK(!values.has("w"));
}

TEST_CASE("parameters: invalid values are rejected with the expected ones") {
  ParameterValues values(kList);
  const auto refused = [&](const char* key, const ParameterValue& value, const char* text) {
    CHECK_THROWS_WITH_AS(values.set("here", key, value), text, ConfigError);
  };
  refused("widht", 1.0, "here.widht: unknown key, did you mean here.width?");
  refused("xyzzy", 1.0, "here.xyzzy: unknown key, here has: width, share, count, fast, form");
  refused("width", 0.0, "here.width: 0 is out of range, expected a number above 0");
  refused("width", std::monostate(), "here.width: null is not a value, expected a number above 0");
  refused("breadth", true, "here.breadth: true is a boolean, expected a number above 0");
  refused("share", 1.5, "here.share: 1.5 is out of range, expected a number in [0, 1], or null");
  refused("share", std::nan(""), "here.share: nan is out of range, expected a number in [0, 1], or null");
  refused("count", 1.5, "here.count: 1.5 is not whole, expected an integer of at least 1");
  refused("fast", 1.0, "here.fast: 1 is a number, expected true or false");
  refused("form", "oval", "here.form: \"oval\" is unknown, expected one of: round, square");
  refused("form", 1.0, "here.form: 1 is a number, expected one of: round, square");
  CHECK_THROWS_AS(values.number("nothing"), InvariantError);
  CHECK_THROWS_AS(values.number("fast"), InvariantError);
  CHECK_THROWS_WITH_AS(ParameterValues().set("here", "x", 1.0), "here.x: unknown key, here has no parameters",
                       ConfigError);
}
