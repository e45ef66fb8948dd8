#include "models/learning/environment_rules.h"

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

TEST_CASE("environment_rules: a recurrent model with a loss over whole episodes is refused with what to set instead") {
  EnvSpec env;
  env.id = "Made-up";
  env.observations = {{"state", DType::f32, {3}}};
  env.action.bins = {2};
  LearnerConfig config;
  config.model.kind = "net";
  config.model.net = R"({"core": {"kind": "gru", "size": 4}})";
  const std::string begin = "model.net.core: is trained on sequences of 32 steps (model.sequence), but ",
                    other = "set algorithm.surrogate to one that reads single steps, like \"clip\"",
                    mean = "algorithm.aggregation to \"token-mean\"", sum = "seq-mean-token-sum";
  const auto refused = [&](const std::string& surrogate, const std::string& aggregation) {
    config.algorithm.surrogate = surrogate;
    config.algorithm.aggregation = aggregation;
    try {
      check_fit(config, env);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const std::string name : {"gspo", "geo_mean"}) {
    const std::string surrogate = "algorithm.surrogate \"" + name + '"';
    CHECK(refused(name, "auto") == begin + surrogate + " needs whole episodes; " + other);
    CHECK(refused(name, "token-mean") == begin + surrogate + " needs whole episodes; " + other);
    CHECK(refused(name, sum) == begin + surrogate + " and algorithm.aggregation \"" + sum + "\" need whole episodes; " +
                                    other + " and " + mean);
  }
  CHECK(refused("clip", sum) == begin + "algorithm.aggregation \"" + sum + "\" needs whole episodes; set " + mean);
  CHECK(refused("clip", "token-mean").empty());
  CHECK(refused("clip", "auto").empty());
}

TEST_CASE(
    "environment_rules: drawing single steps is refused if something needs whole columns, and the error names it") {
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

namespace {

// The error about a recurrent model that is trained on sequences of `sequence` steps, or "". A super-batch of 1024
// samples is one minibatch.
std::string refusal_of_micro_batch(int64_t micro_batch, int64_t sequence, const char* core = "gru") {
  LearnerConfig config;
  config.model.kind = "net";
  config.model.net = std::string(R"({"core": {"kind": ")") + core + R"("}})";
  config.model.sequence = sequence;
  config.trainer = {.super_batch = 64 * 16, .minibatches = 1, .micro_batch = micro_batch};
  EnvSpec env;
  env.id = "Made-up";
  env.observations = {{"state", DType::f32, {5}}};
  env.action.bins = {3};
  try {
    check_fit(config, env);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("environment_rules: gradients that ranks free are refused on a GPU") {
  EnvSpec env;
  env.id = "Made-up";
  env.observations = {{"state", DType::f32, {5}}};
  env.action.bins = {3};
  LearnerConfig config;
  config.trainer.zero = 2;
  config.trainer.device = "cuda";
  CHECK_NOTHROW(check_fit(config, env));  // one rank: nothing is freed
  config.trainer.ranks = 2;
  CHECK_THROWS_WITH_AS(check_fit(config, env),
                       "trainer.zero: 2 frees gradients on the CPU alone, and trainer.device is \"cuda\"; use 1, or "
                       "trainer.device \"cpu\"",
                       ConfigError);
  config.trainer.zero = 1;
  CHECK_NOTHROW(check_fit(config, env));
  config.trainer.zero = 2;
  config.trainer.device = "cpu";
  CHECK_NOTHROW(check_fit(config, env));
}

TEST_CASE("environment_rules: a micro-batch smaller than one sequence of a recurrent model is refused") {
  CHECK(refusal_of_micro_batch(15, 16) ==
        "trainer.micro_batch: 15 is less than one sequence of 16 steps (model.sequence), which a recurrent model is "
        "trained "
        "on as a whole; use at least 16, or 0 for the whole minibatch");
  CHECK(refusal_of_micro_batch(1, 2).starts_with("trainer.micro_batch: 1 is less than one sequence of 2 steps"));
  // 32 is the default of model.sequence.
  CHECK(refusal_of_micro_batch(31, 0).find("one sequence of 32 steps") != std::string::npos);
  for (const int64_t micro_batch : {0, 16, 17, 1024}) CHECK(refusal_of_micro_batch(micro_batch, 16).empty());
  CHECK(refusal_of_micro_batch(1, 0, "none").empty());
}

TEST_CASE("environment_rules: bounds of actions that the first policy hardly reaches are named, with what to set") {
  EnvSpec env;
  env.id = "Made-up";
  env.action.kind = ActionKind::continuous;
  const auto said = [&](float low, float high, double log_std = 0) {
    ModelConfig model;
    model.log_std_start = log_std;
    env.action.low = {-1, low};
    env.action.high = {1, high};
    return bounds_out_of_reach(model, env).value_or("");
  };
  CHECK(
      said(5, 10) ==
      "component 1 of the actions of Made-up has the bounds 5 and 10, but the first policy has mean 0 and standard "
      "deviation 1: 100 % of its actions are clipped to the same bound, so there is almost nothing to learn from; set "
      "env.normalize_actions to true");
  CHECK(said(-300, -2).find("97.72 %") != std::string::npos);
  CHECK(said(0.5f, 2, -2).find("standard deviation 0.1353: 99.99 %") != std::string::npos);
  CHECK(said(0, 1) == "");
  CHECK(said(-0.001f, 0.001f) == "");
  CHECK(said(1, 400) == "");
  CHECK(said(5, 10, 2) == "");
  env.action = {};
  env.action.bins = {3};
  CHECK(!bounds_out_of_reach(ModelConfig(), env));
}
