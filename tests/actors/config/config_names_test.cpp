// A config file accepts exactly the names in the tables of algorithms/.
#include <algorithm>
#include <string>
#include <vector>

#include "actors/config/config.h"
#include "algorithms/common/moments.h"
#include "algorithms/common/schedule.h"
#include "algorithms/losses/aggregation.h"
#include "algorithms/losses/value_loss.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// The choices of a field, sorted.
std::vector<std::string> accepted(std::string_view path) {
  RunConfig config;
  const Fields fields = describe(config);
  const Field* field = find_field(fields, path);
  REQUIRE(field != nullptr);
  std::vector<std::string> names(field->setting.choices.begin(), field->setting.choices.end());
  std::ranges::sort(names);
  return names;
}

// The names in a table, sorted. They are read from the error about an unknown name, which ends with "(known: a, b)".
template <class Find>
std::vector<std::string> known(const Find& find) {
  std::string text;
  try {
    find("no such name");
  } catch (const ConfigError& error) {
    text = error.what();
  }
  const std::string before = "(known: ";
  const size_t begin = text.find(before);
  REQUIRE(begin != std::string::npos);
  std::vector<std::string> names;
  for (size_t at = begin + before.size(); at < text.size();) {
    const size_t end = text.find_first_of(",)", at);
    names.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

TEST_CASE("config files: value losses, schedules, aggregations and whitenings have the names of their tables") {
  std::vector<std::string> aggregations = known([](const char* name) { find_aggregation(name); });
  aggregations.insert(aggregations.begin(), "auto");
  CHECK(accepted("algorithm.aggregation") == aggregations);
  CHECK(accepted("algorithm.value_loss") == known([](const char* name) { find_value_loss(name); }));
  std::vector<std::string> whitenings = known([](const char* name) { find_whiten_variant(name); });
  whitenings.insert(whitenings.end(), {"auto", "none"});
  std::ranges::sort(whitenings);
  CHECK(accepted("algorithm.whitening") == whitenings);
  CHECK(accepted("trainer.lr_schedule") == known([](const char* name) { find_learning_rate_kind(name); }));
}
