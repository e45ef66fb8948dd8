#include "algorithms/common/parameters.h"

#include <array>
#include <cmath>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr std::array<std::string_view, 2> kForms = {"round", "square"};
constexpr std::array kList = {
    Parameter{.key = "width", .default_value = 2, .low = 0, .open_low = true, .alias = "breadth,w"},
    Parameter{.key = "share", .default_value = kUnset, .low = 0, .high = 1},
    Parameter{.key = "count", .kind = Parameter::Kind::integer, .default_value = 3, .low = 1},
    Parameter{.key = "fast", .kind = Parameter::Kind::flag},
    Parameter{.key = "form", .kind = Parameter::Kind::choice, .default_value = 1, .choices = kForms},
};

}  // namespace

TEST_CASE("parameters: defaults until set, by key or alias, a whole number where a number is wanted") {
  ParameterValues values(kList);
  CHECK(values.number("width") == 2);
  CHECK(values.integer("count") == 3);
  CHECK(!values.flag("fast"));
  CHECK(values.choice("form") == "square");
  CHECK(values.number_or("share", .7) == .7);
  values.set("test", "w", int64_t{5});
  values.set("test", "share", 1.0);
  values.set("test", "fast", true);
  values.set("test", "form", "round");
  CHECK(values.number("width") == 5);
  CHECK(values.number_or("share", .7) == 1);
  CHECK(values.flag("fast"));
  CHECK(values.choice("form") == "round");
  CHECK(values.has("share"));
  CHECK(!values.has("w"));
}

TEST_CASE("parameters: what does not fit is refused with what would") {
  ParameterValues values(kList);
  const auto refused = [&](const char* key, const ParameterValue& value, const char* text) {
    CHECK_THROWS_WITH_AS(values.set("here", key, value), text, ConfigError);
  };
  refused("widht", 1.0,
          "here: unknown parameter \"widht\", did you mean \"width\"? (known: width, share, count, fast, form)");
  refused("width", 0.0, "here.width: 0, expected a number above 0");
  refused("breadth", true, "here.breadth: true, expected a number above 0");
  refused("share", 1.5, "here.share: 1.5, expected a number in [0, 1]");
  refused("share", std::nan(""), "here.share: nan, expected a number in [0, 1]");
  refused("count", 1.5, "here.count: 1.5, expected a whole number of at least 1");
  refused("fast", 1.0, "here.fast: 1, expected true or false");
  refused("form", "oval", "here.form: \"oval\", expected one of: round, square");
  refused("form", 1.0, "here.form: 1, expected one of: round, square");
  CHECK_THROWS_AS(values.number("nothing"), InvariantError);
  CHECK_THROWS_AS(values.number("fast"), InvariantError);
  CHECK_THROWS_WITH_AS(ParameterValues().set("here", "x", 1.0), "here: unknown parameter \"x\", there are none",
                       ConfigError);
}
