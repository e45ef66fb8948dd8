#include "runtime/run_folder/json_scan.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

namespace {

using Scalars = std::vector<std::pair<std::string, std::string>>;

Scalars scalars_of(const std::string& json) {
  Scalars scalars;
  REQUIRE(scan_json(json, [&](std::string_view path, std::string_view text) { scalars.emplace_back(path, text); }));
  return scalars;
}

bool is_whole(const std::string& json) {
  return scan_json(json, [](std::string_view, std::string_view) {});
}

}  // namespace

TEST_CASE("scan_json: reports every scalar with its path, in their order and as it is written") {
  CHECK(scalars_of(R"({"a": 1, "b": {"c": -2.50e+3, "d": {}}, "e": [true, null], "f": "x,}\"y"})") ==
        Scalars{{"a", "1"}, {"b.c", "-2.50e+3"}, {"e.0", "true"}, {"e.1", "null"}, {"f", R"("x,}\"y")"}});
}

TEST_CASE("scan_json: keys with escapes are part of the path without them") {
  CHECK(scalars_of(R"({"env \"x\"": {"\u00e9": 1}})") == Scalars{{"env \"x\".é", "1"}});
}

TEST_CASE("scan_json: every beginning of a line is told from the whole line") {
  const std::string line = R"({"a": {"b": 12.5, "c": "te\\xt"}, "d": [1, 2], "e": false})";
  REQUIRE(is_whole(line));
  for (size_t size = 0; size < line.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(is_whole(line.substr(0, size)));
  }
}

TEST_CASE("scan_json: what is no JSON object is refused") {
  for (const char* text : {"", "1", "[1]", "{\"a\"}", "{\"a\": }", "{\"a\": nul}", "{\"a\": 1 2}", "{\"a\": 1}}",
                           "{a: 1}", "{\"a\": 1,}", "{\"a\": 1.2.3}"})
    CHECK_FALSE(is_whole(text));
  CHECK_FALSE(is_whole(std::string(100'000, '{')));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  CHECK_FALSE(is_whole(deep));
}

TEST_CASE("scalar_number: reads numbers exactly, and nothing else") {
  CHECK(scalar_number("0.1") == 0.1);
  CHECK(scalar_number("-149641.09009819353") == -149641.09009819353);
  CHECK(scalar_number("5e-324") == 5e-324);
  for (const char* text : {"", "null", "true", "\"1\"", "nan", "inf", "+1", "1x"}) CHECK_FALSE(scalar_number(text));
}

TEST_CASE("scalar_text: a string without quotes and escapes, nothing for null, others as they are") {
  CHECK(scalar_text(R"("a\nb\"c")") == "a\nb\"c");
  CHECK(scalar_text("null") == "");
  CHECK(scalar_text("1.50") == "1.50");
}
