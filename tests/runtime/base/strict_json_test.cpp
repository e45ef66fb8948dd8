#include "runtime/base/strict_json.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

Json read(const std::string& text) { return parse_strict(text, "x.json"); }

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const InexactNumber& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("strict_json: 64-bit integers are read exactly in any notation") {
  for (const char* text : {"9007199254740993", "9007199254740993.0", "9007199254740993.000e0", "9.007199254740993e15",
                           "90071992547409930e-1", "0.009007199254740993e18"})
    CHECK_MESSAGE(read(text) == uint64_t{9007199254740993}, text);
  CHECK(read("-9007199254740993.0") == int64_t{-9007199254740993});
  CHECK(read("1.8446744073709551615e19") == std::numeric_limits<uint64_t>::max());
  CHECK(read("2.0") == 2.0);
  CHECK(read("1e19") == 1e19);
  for (const char* zero : {"0.0", "-0.0", "0e5", "0.000e-999", "0e99999999999999999999"})
    CHECK_MESSAGE(read(zero) == 0.0, zero);
}

TEST_CASE("strict_json: a number that would be rounded to an integer is refused with both numbers") {
  CHECK(refusal(R"({"seed": 1e-400})") == "x.json: seed: 1e-400 cannot be represented, the nearest number is 0.0");
  CHECK(refusal(R"({"a": {"b": [1, 2.00000000000000000001]}})") ==
        "x.json: a.b: 2.00000000000000000001 cannot be represented, the nearest number is 2.0");
  CHECK(refusal("-0.99999999999999999999") ==
        "x.json: -0.99999999999999999999 cannot be represented, the nearest number is -1.0");
  CHECK(refusal("9007199254740992.5").ends_with("the nearest number is 9.007199254740992e+15"));
  CHECK(refusal("1e-99999999999999999999") != "");
  CHECK(refusal(R"({"x": 0.)" + std::string(100'000, '0') + "1}").size() < 200);
}

TEST_CASE("strict_json: other numbers are read as the nearest double, and written doubles are read exactly") {
  for (const char* text : {"0.1", "1e30", "1e23", "123456789.5", "4.9e-324", "1.7976931348623157e308"})
    CHECK(read(text) == std::strtod(text, nullptr));
  Rng rng(derive_key(1, "numbers"));
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bits = rng.next_u64();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (i % 2 == 0) value = std::ldexp(static_cast<double>(bits >> 11), static_cast<int>(rng.below(24)) - 12);
    if (!std::isfinite(value)) continue;
    const std::string text = Json(value).dump();
    CHECK(parse_stored(text, "x").dump() == text);
    CHECK_MESSAGE(read(text).get<double>() == value, text);
  }
}

TEST_CASE("strict_json: the error about a damaged stored file has its path and position") {
  CHECK_THROWS_WITH_AS(parse_stored("{\n  1", "run/state.json"),
                       doctest::Contains("run/state.json:2:3: not valid JSON: "), IoError);
  CHECK_THROWS_WITH_AS(parse_stored("", "run/state.json"), "run/state.json: is empty, expected a JSON value", IoError);
}
