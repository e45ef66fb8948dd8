// The columns of a history, and what a history answers from them.
#include "runtime/stats/history_columns.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/stats/protocol.h"
#include "tests/support/test.h"

using namespace troupe;
using nlohmann::json;

namespace {

// The value of a topic of each snapshot, as JSON text, by the columns; "?" where they do not know it.
std::vector<std::string> by_columns(const std::vector<std::string>& snapshots, const std::string& topic) {
  HistoryColumns columns;
  std::vector<FigureRow> rows;
  for (const std::string& snapshot : snapshots) rows.push_back(columns.row_of(json::parse(snapshot)));
  const auto column = columns.find(topic);
  std::vector<std::string> values;
  for (const FigureRow& row : rows) values.push_back(column ? columns.text(row, *column) : "?");
  return values;
}

using Texts = std::vector<std::string>;
const Texts kUnknownTwice = {"?", "?"};

// The values of a topic in the reply of a history, perhaps each with its range.
json points(const StatsHistory& history, const std::string& topic, bool ranges = false) {
  StatsRequest request;
  request.kind = StatsRequest::Kind::history;
  request.topics = {topic};
  request.last = 1000;
  request.ranges = ranges;
  json values = json::array();
  const json reply = json::parse(history.history_message(request, 1 << 20).message);
  for (const json& point : reply["points"]) values.push_back(point[1][0]);
  return values;
}

}  // namespace

TEST_CASE("history_columns: numbers are known by their dotted paths, whole ones without a point") {
  const Texts snapshots = {R"({"a":1,"b":{"c":0.5}})", R"({"a":2,"b":{"c":1e300}})"};
  CHECK(by_columns(snapshots, "a") == Texts{"1", "2"});
  CHECK(by_columns(snapshots, "b.c") == Texts{"0.5", "1e+300"});
}

TEST_CASE("history_columns: a value that is null or absent is null") {
  CHECK(by_columns({R"({"a":null})", R"({"a":2})", R"({})"}, "a") == Texts{"null", "2", "null"});
}

TEST_CASE("history_columns: a figure that comes up later is null before") {
  CHECK(by_columns({R"({"b":1})", R"({"b":1,"a":2})"}, "a") == Texts{"null", "2"});
}

TEST_CASE("history_columns: a topic that has other values than numbers is not answered from columns") {
  CHECK(by_columns({R"({"a":1})", R"({"a":"x"})"}, "a") == kUnknownTwice);
  CHECK(by_columns({R"({"a":true})", R"({"a":1})"}, "a") == kUnknownTwice);
  CHECK(by_columns({R"({"a":[1]})", R"({"a":1})"}, "a") == kUnknownTwice);
  CHECK(by_columns({R"({"a":{"b":1}})", R"({"a":1})"}, "a") == kUnknownTwice);
  CHECK(by_columns({R"({"a":1})", R"({"a":{"b":1}})"}, "a") == kUnknownTwice);
  CHECK(by_columns({R"({"a":1})", R"({"a":1})"}, "nothing") == kUnknownTwice);
}

TEST_CASE("history_columns: whole numbers that a double cannot hold are not answered from columns") {
  CHECK(by_columns({R"({"a":9007199254740992})", R"({"a":1})"}, "a") == Texts{"9007199254740992", "1"});
  CHECK(by_columns({R"({"a":9007199254740994})", R"({"a":1})"}, "a") == kUnknownTwice);
  CHECK(by_columns({R"({"a":18446744073709551615})", R"({"a":1})"}, "a") == kUnknownTwice);
}

TEST_CASE("history_columns: two keys with one dotted path are not answered from columns, and empty keys have none") {
  CHECK(by_columns({R"({"a.b":1,"a":{"b":2}})", R"({})"}, "a.b") == kUnknownTwice);
  CHECK(by_columns({R"({"x.y":1})", R"({"x":{"y":2}})"}, "x.y") == Texts{"1", "2"});
  CHECK(by_columns({R"({"":{"a":1}})", R"({})"}, "a") == kUnknownTwice);
}

TEST_CASE("history_columns: beyond their largest number, new paths have no column") {
  json many;
  for (size_t i = 0; i < 2 * HistoryColumns::kMostColumns; ++i) many["f" + std::to_string(i)] = i;
  HistoryColumns columns;
  const FigureRow row = columns.row_of(many);
  CHECK(row.size() == HistoryColumns::kMostColumns);
  size_t known = 0;
  for (const auto& [name, value] : many.items())
    if (const auto column = columns.find(name)) {
      CHECK(columns.text(row, *column) == value.dump());
      ++known;
    }
  CHECK(known == HistoryColumns::kMostColumns);
}

TEST_CASE("history_columns: a history answers each topic as its snapshots have it, whatever its type") {
  const Texts snapshots = {
      R"({"n":1,"x":0.5,"t":"a","o":{"k":1,"d.e":null},"z":null,"updates":1,"eval":null})",
      R"({"n":2,"x":1,"t":null,"o":{"k":-2.25,"d.e":3},"z":null,"updates":2,"eval":{"updates":1,"m":7}})",
      R"({"n":3,"x":null,"t":"c","o":{},"z":false,"updates":3,"eval":{"updates":1,"m":7}})",
      R"({"x":2,"o":null,"updates":4,"eval":{"updates":3,"m":0.125}})",
  };
  StatsHistory history(100, 1 << 20);
  for (const std::string& snapshot : snapshots) REQUIRE(history.add(snapshot));
  CHECK(points(history, "n") == json{1, 2, 3, nullptr});
  CHECK(points(history, "x") == json{0.5, 1, nullptr, 2});
  CHECK(points(history, "t") == json{"a", nullptr, "c", nullptr});
  CHECK(points(history, "o.k") == json{1, -2.25, nullptr, nullptr});
  CHECK(points(history, "o.d.e") == json{nullptr, 3, nullptr, nullptr});
  CHECK(points(history, "o") ==
        json{{{"k", 1}, {"d.e", nullptr}}, {{"k", -2.25}, {"d.e", 3}}, json::object(), nullptr});
  CHECK(points(history, "z") == json{nullptr, nullptr, false, nullptr});
  CHECK(points(history, "absent") == json{nullptr, nullptr, nullptr, nullptr});
  // Each evaluation is in one snapshot: the first after the update that was evaluated.
  const json means = points(history, "eval.m"), evaluations = points(history, "eval");
  size_t evaluated = 0;
  for (size_t i = 0; i < snapshots.size(); ++i) {
    CHECK(means[i] == (evaluations[i].is_object() ? evaluations[i]["m"] : json()));
    evaluated += evaluations[i].is_object() ? 1 : 0;
  }
  CHECK(evaluated == 2);
}

TEST_CASE(
    "history_columns: with ranges, an older value comes with the smallest and the largest since the one before it") {
  // Three parts of four snapshots: the newest, of older ones every 16th, and of still older ones every 256th.
  constexpr uint64_t kSnapshots = 1500;
  const std::vector<std::pair<uint64_t, uint64_t>> kept = {{512, 256}, {768, 256}, {1024, 256}, {1280, 256},
                                                           {1440, 16}, {1456, 16}, {1472, 16},  {1488, 16},
                                                           {1497, 1},  {1498, 1},  {1499, 1},   {1500, 1}};
  const auto value = [](uint64_t n) { return static_cast<int64_t>(n * 7919 % 1009) - 500; };
  StatsHistory history(4, 1 << 20);
  for (uint64_t n = 1; n <= kSnapshots; ++n) {
    json snapshot = {{"x", value(n)}, {"gaps", nullptr}, {"text", "t" + std::to_string(n)}};
    if (n % 2 == 1) snapshot["gaps"] = 0.5 * static_cast<double>(value(n));
    REQUIRE(history.add(snapshot.dump()));
  }
  const json x = points(history, "x", true), gaps = points(history, "gaps", true), text = points(history, "text", true);
  REQUIRE(x.size() == kept.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto [sequence, each] = kept[i];
    int64_t low = value(sequence), high = low, odd_low = 1000, odd_high = -1000;
    for (uint64_t n = sequence - each + 1; n <= sequence; ++n) {
      low = std::min(low, value(n));
      high = std::max(high, value(n));
      if (n % 2 == 0) continue;
      odd_low = std::min(odd_low, value(n));
      odd_high = std::max(odd_high, value(n));
    }
    CAPTURE(sequence);
    CHECK(x[i] == json{low, value(sequence), high});
    const json middle = sequence % 2 == 1 ? json(0.5 * static_cast<double>(value(sequence))) : json();
    if (odd_low > odd_high)
      CHECK(gaps[i] == json{nullptr, nullptr, nullptr});
    else
      CHECK(gaps[i] == json{0.5 * static_cast<double>(odd_low), middle, 0.5 * static_cast<double>(odd_high)});
    const std::string own = "t" + std::to_string(sequence);
    CHECK(text[i] == json{own, own, own});
  }
}

TEST_CASE("history_columns: with ranges, an evaluation is a point of its own") {
  StatsHistory history(2, 1 << 20);
  for (uint64_t n = 1; n <= 40; ++n) {
    json snapshot = {{"updates", n}, {"eval", nullptr}};
    if (n > 20) snapshot["eval"] = {{"updates", 20}, {"m", 7}};
    REQUIRE(history.add(snapshot.dump()));
  }
  size_t evaluated = 0;
  for (const json& point : points(history, "eval.m", true)) {
    CHECK((point == json{7, 7, 7} || point == json{nullptr, nullptr, nullptr}));
    evaluated += point[0] == 7 ? 1 : 0;
  }
  CHECK(evaluated == 1);
}
