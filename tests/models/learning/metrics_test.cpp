// docs/algorithms.md lists what a run reports of its learner: every name, and when it is there.

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "actors/config/run_config.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The names of the table under "### Metrics of a run", by the words of its last column.
std::map<std::string, std::set<std::string>> documented() {
  std::ifstream page("docs/algorithms.md");
  REQUIRE(page.good());
  std::map<std::string, std::set<std::string>> result;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) inside = line == "### Metrics of a run";
    if (!inside || !line.starts_with("| `")) continue;
    const size_t names_end = line.find(" | "), when = line.rfind(" | ", line.size() - 3) + 3;
    const std::string reported = line.substr(when, line.size() - 2 - when);
    std::istringstream names(line.substr(2, names_end - 2));
    for (std::string name; names >> name;) {
      const size_t begin = name.find('`') + 1;
      result[reported].insert(name.substr(begin, name.find('`', begin) - begin));
    }
  }
  return result;
}

std::set<std::string> reported(const std::function<void(RunConfig&)>& change, const EnvSpec& spec = discrete_spec()) {
  RunConfig config = small_config();
  change(config);
  const auto policy = make_policy(config, spec);
  const auto learner = make_learner(config, spec);
  const UpdateReport report = update_with(*learner, whole_batch(random_rollout(spec, *policy, 8, 6, 1)));
  CHECK(report.steps > 0);
  std::set<std::string> names;
  for (const auto& [name, value] : report.metrics) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("metrics: a learner reports what docs/algorithms.md lists, and nothing else") {
  const auto docs = documented();
  const std::map<std::string, std::set<std::string>> seen = {
      {"always", reported([](RunConfig&) {})},
      {"continuous actions", reported([](RunConfig&) {}, continuous_spec())},
      {"`kl_coef` above 0", reported([](RunConfig& c) { c.algorithm.kl_coef = 0.1; })},
      {"`kl` `full`", reported([](RunConfig& c) { c.algorithm.kl = "full"; })},
      {"`value_clip` above 0", reported([](RunConfig& c) { c.algorithm.value_clip = 0.2; })},
      {"surrogate `sapo`", reported([](RunConfig& c) { c.algorithm.surrogate = "sapo"; })},
      {"`rollout_correction`", reported([](RunConfig& c) { c.algorithm.rollout_correction = R"({"is": "token"})"; })},
  };
  REQUIRE(docs.size() == seen.size());
  for (const auto& [when, names] : seen) {
    CAPTURE(when);
    REQUIRE(docs.contains(when));
    std::set<std::string> wanted = docs.at("always");
    wanted.insert(docs.at(when).begin(), docs.at(when).end());
    for (const std::string& name : wanted) CHECK_MESSAGE(names.contains(name), "not reported: ", name);
    for (const std::string& name : names) CHECK_MESSAGE(wanted.contains(name), "not documented: ", name);
  }
}

TEST_CASE("metrics: every estimator and surrogate reports the same names") {
  const std::set<std::string> always = documented().at("always");
  for (const char* advantage : {"vtrace", "grpo", "rloo", "optimal_token_baseline"})
    CHECK_MESSAGE(reported([&](RunConfig& c) { c.algorithm.advantage = advantage; }) == always, advantage);
  for (const char* surrogate : {"gspo", "cispo", "geo_mean", "kl_cov", "none"})
    CHECK_MESSAGE(reported([&](RunConfig& c) { c.algorithm.surrogate = surrogate; }) == always, surrogate);
}
