#include "actors/spec_fields.h"

#include "actors/run_context.h"
#include "envs/make/make_env.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

EnvSpec spec_of(const std::string& id) {
  EnvConfig config;
  config.id = id;
  config.rows = 1;
  return make_env(config)->spec();
}

std::string difference(const EnvSpec& run, const EnvSpec& worker) {
  RunContext of_run, of_worker;
  of_run.spec = run;
  of_worker.spec = worker;
  return spec_difference(spec_fields(of_run), spec_fields(of_worker)).value_or("");
}

}  // namespace

TEST_CASE("spec_fields: equal specs have no difference") {
  for (const char* id : {"CartPole-v1", "Pendulum-v1", "TokenReach", "GridWorld"})
    CHECK(difference(spec_of(id), spec_of(id)).empty());
}

TEST_CASE("spec_fields: every field that differs is named, with the value of the worker and that of the run") {
  const EnvSpec run = spec_of("CartPole-v1");
  EnvSpec worker = run;
  worker.action.bins = {3};
  CHECK(difference(run, worker) == "number of choices of each action is [3], in the run [2]");
  worker = run;
  worker.action.masked = true;
  worker.max_episode_steps = 7;
  CHECK(difference(run, worker) ==
        "action mask is yes, in the run no; limit of steps of an episode is 7, in the run 500");
  worker = run;
  worker.observations[0].shape = Shape{5};
  CHECK(difference(run, worker).find("is float32[5], in the run float32[4]") != std::string::npos);
  worker.observations[0] = {"other", DType::u8, Shape{1}};
  const std::string text = difference(run, worker);
  CHECK(text.find("is missing, in the run float32[4]") != std::string::npos);
  CHECK(text.find("observation other is uint8[1], in the run missing") != std::string::npos);
}

TEST_CASE("spec_fields: the bounds of continuous actions are compared exactly") {
  const EnvSpec run = spec_of("Pendulum-v1");
  EnvSpec worker = run;
  worker.action.high[0] = std::nextafter(worker.action.high[0], 10.0f);
  CHECK(difference(run, worker).find("upper bounds of actions is [2.0000002], in the run [2]") != std::string::npos);
}

TEST_CASE("spec_fields: what a peer sends cannot make the message long") {
  const SpecFields run = {{"environment", "CartPole-v1"}};
  SpecFields worker(100'000, {"a field", "a value"});
  worker.emplace_back(std::string(1'000'000, 'x'), std::string(1'000'000, 'y'));
  const auto text = spec_difference(run, worker);
  REQUIRE(text);
  CHECK(text->size() < 20'000);
}
