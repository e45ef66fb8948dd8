#include "models/environment_rules.h"

#include <string>
#include <utility>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::string refusal(const std::string& draw, const AlgorithmConfig& algorithm, const Recurrence& recurrence = {}) {
  try {
    check_draw(draw, algorithm, recurrence);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

AlgorithmConfig algorithm(void (*change)(AlgorithmConfig&)) {
  AlgorithmConfig result;
  change(result);
  return result;
}

}  // namespace

TEST_CASE("environment_rules: single steps are drawn unless something needs whole columns, which one line names") {
  const std::pair<AlgorithmConfig, std::string> cases[] = {
      {algorithm([](AlgorithmConfig& a) { a.advantage = "vtrace"; }), "algorithm.advantage \"vtrace\""},
      {algorithm([](AlgorithmConfig& a) { a.advantage = "rloo"; }), "algorithm.advantage \"rloo\""},
      {algorithm([](AlgorithmConfig& a) { a.rollout_correction = R"({"is": "sequence"})"; }),
       "algorithm.rollout_correction"},
      {algorithm([](AlgorithmConfig& a) { a.surrogate = "gspo"; }),
       "algorithm.surrogate \"gspo\" with algorithm.aggregation \"auto\""},
      {algorithm([](AlgorithmConfig& a) { a.aggregation = "seq-mean-token-sum"; }),
       "algorithm.surrogate \"clip\" with algorithm.aggregation \"seq-mean-token-sum\""},
  };
  const std::string begin = "replay.draw: \"sample\" takes single steps out of rollouts, but ",
                    end = " needs whole columns of them; use \"column\"";
  for (const auto& [config, what] : cases) {
    CAPTURE(what);
    CHECK(refusal("sample", config) == begin + what + end);
    CHECK(refusal("column", config).empty());
  }
  const Recurrence recurrence{.state_size = 3, .sequence = 2, .burn_in = 0};
  CHECK(refusal("sample", {}, recurrence) == begin + "model.net.core, whose state depends on the steps before," + end);
  CHECK(refusal("column", {}, recurrence).empty());
  CHECK(refusal("sample", {}).empty());
  CHECK(refusal("sample", algorithm([](AlgorithmConfig& a) { a.surrogate = "cispo"; })).empty());
}
