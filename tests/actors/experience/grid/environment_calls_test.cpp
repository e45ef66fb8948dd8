#include "actors/experience/grid/environment_calls.h"

#include <optional>

#include "envs/make/make_env.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// The result of a step in which these rows have failed.
EnvStep step_with(std::initializer_list<Failed> rows) {
  EnvConfig config;
  config.id = "CartPole-v1";
  const auto count = static_cast<int64_t>(rows.size());
  config.rows = count;
  EnvStep step = EnvStep::allocate(make_env(config)->spec(), count);
  size_t i = 0;
  for (const Failed failed : rows) step.failed.mutable_view<uint8_t>()[i++] = static_cast<uint8_t>(failed);
  return step;
}

}  // namespace

TEST_CASE("environment_calls: a call counts from its construction to its destruction, and as made once it is noted") {
  const EnvironmentCalls before = EnvironmentCalls::now();
  CHECK(!before.inside());
  {
    EnvironmentCall call;
    const EnvironmentCalls now = EnvironmentCalls::now();
    CHECK(now.inside());
    CHECK(now.begun == before.begun + 1);
    CHECK(now.returned == before.returned);
    call.note_done();
    CHECK(EnvironmentCalls::now().made == before.made + 1);
  }
  const EnvironmentCalls after = EnvironmentCalls::now();
  CHECK(!after.inside());
  CHECK(after.returned == before.returned + 1);
  CHECK(after.longest >= before.longest);
  CHECK(after.longest.count() > 0);
}

TEST_CASE("environment_calls: a step is made if at least one row has not failed") {
  const auto made = [](std::initializer_list<Failed> rows) {
    const uint64_t before = EnvironmentCalls::now().made;
    EnvironmentCall call;
    call.note(step_with(rows));
    return EnvironmentCalls::now().made - before;
  };
  CHECK(made({Failed::no}) == 1);
  CHECK(made({Failed::now, Failed::no, Failed::idle}) == 1);
  CHECK(made({Failed::now}) == 0);
  CHECK(made({Failed::idle, Failed::now}) == 0);
}

TEST_CASE("environment_calls: calls are in vain if all since a moment have failed or the last one has not returned") {
  const EnvironmentCalls before = EnvironmentCalls::now();
  CHECK(!EnvironmentCalls::now().in_vain_since(before));  // none was called
  std::optional<EnvironmentCall> call;
  call.emplace();
  CHECK(EnvironmentCalls::now().in_vain_since(before));  // it hangs
  call.reset();
  CHECK(EnvironmentCalls::now().in_vain_since(before));  // it has failed
  call.emplace();
  call->note_done();
  CHECK(!EnvironmentCalls::now().in_vain_since(before));
  call.reset();
  CHECK(!EnvironmentCalls::now().in_vain_since(before));
  const EnvironmentCalls later = EnvironmentCalls::now();
  {
    EnvironmentCall failed;
  }
  CHECK(EnvironmentCalls::now().in_vain_since(later));
  CHECK(!EnvironmentCalls::now().in_vain_since(before));
}
