#include "algorithms/losses/surrogate.h"

#include <cmath>
#include <set>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("surrogate: names and aliases of the table are unique, and parameters are documented") {
  std::set<std::string_view> names;
  for (const SurrogateEntry& entry : surrogate_table()) {
    CHECK(names.insert(entry.name).second);
    CHECK(make_surrogate(entry.name).entry == &entry);
    for (const SurrogateAlias& alias : entry.aliases) {
      if (alias.name.empty()) continue;
      CHECK(names.insert(alias.name).second);
      CHECK(make_surrogate(alias.name).entry == &entry);
    }
    for (const Setting& parameter : entry.parameters) {
      CAPTURE(parameter.key);
      CHECK(!parameter.help.empty());
      CHECK(!parameter.source.empty());
      const ParameterValue value = default_value(parameter);
      Surrogate surrogate = make_surrogate(entry.name);
      if (!(std::holds_alternative<double>(value) && std::isnan(std::get<double>(value))))
        surrogate.parameters.set("test", parameter.key, value);
    }
  }
  for (const char* name : {"clip",           "dual_clip",  "soft_clip", "sapo",     "ce_gppo",
                           "cispo",          "gspo",       "gpg",       "clip_cov", "kl_cov",
                           "geo_mean",       "reinforce",  "gipo",      "none",     "soft_clip_alpha-1",
                           "sapo_soft_clip", "cispo_clip", "is_clip",   "gmpo",     "log_gauss_clip",
                           "no_clip"})
    CHECK(names.contains(name));
}

TEST_CASE("surrogate: an unknown name or parameter is rejected with the nearest one") {
  CHECK_THROWS_WITH_AS(make_surrogate("clpi"), doctest::Contains("unknown name \"clpi\", did you mean \"clip\"?"),
                       ConfigError);
  CHECK_THROWS_AS(make_surrogate("Clip"), ConfigError);
  CHECK_THROWS_AS(make_surrogate(""), ConfigError);
  CHECK_THROWS_WITH_AS(surrogate_with("sapo", {{"tau_poss", 1.0}}),
                       doctest::Contains("test.tau_poss: unknown key, did you mean test.tau_pos?"), ConfigError);
}

TEST_CASE("surrogate: wrong sizes and parameters are rejected") {
  const auto refused = [](const char* name, const char* key, const ParameterValue& value) {
    CHECK_THROWS_AS(surrogate_with(name, {{key, value}})({}, {}), ConfigError);
  };
  refused("clip", "clip_low", -.1);
  refused("clip", "clip_high", double{kNaN});
  refused("clip", "clip", true);
  refused("clip", "dual_clip", 1.0);
  refused("clip", "dual_clip", -3.0);
  refused("sapo", "tau_neg", 0.0);
  refused("sapo", "ratio_min", 1e10);
  refused("gipo", "sigma", 0.0);
  refused("cispo", "form", "logits");
  refused("cispo", "verl_compat", 1.0);
  refused("clip_cov", "fraction", 1.5);
  Tokens tokens(4);
  std::vector<float> three(3);
  const auto misfits = [](const SurrogateInput& in, const SurrogateOutput& out) {
    for (const SurrogateEntry& entry : surrogate_table())
      CHECK_THROWS_AS(surrogate_with(entry.name)(in, out), InvariantError);
  };
  misfits(tokens.input(), {three, {}});
  misfits(tokens.input(), {{}, three});
  SurrogateInput in = tokens.input();
  in.advantages = three;
  misfits(in, {});
  in = tokens.input();
  in.rollout_weights = three;
  misfits(in, {});
  in = tokens.input();
  in.sequences = TokenSequences(2, 3);
  misfits(in, {});
}
