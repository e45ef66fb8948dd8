// Environments of shared libraries, compiled here with `cc` out of the source tree; and normalised actions.

#include <sys/stat.h>

#include <cmath>
#include <fstream>

#include "envs/normalized_actions.h"
#include "tests/envs/c_abi/library_fixtures.h"
#include "tests/envs/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// What the environment made with these macros says when it is refused, in a process of its own and in this one.
std::string refusal(const TempFolder& folder, const std::string& macros, const std::string& params = "{}") {
  EnvConfig config = config_of(compiled(folder, "tests/envs/c_abi/faulty.c", macros), 1, params);
  const std::string apart = refusal_of(config);
  config.isolate = false;
  CHECK(refusal_of(config) == apart);
  return apart;
}

// Steps with action 0 until a row fails; the error, or nothing after 10 steps.
std::string first_error(const EnvConfig& config) {
  const auto env = make_env(config);
  EnvStep step = EnvStep::allocate(env->spec(), env->rows());
  env->reset(1, 0, step);
  for (int t = 0; t < 10 && step.errors.empty(); ++t) env->step(zeros(*env), step);
  return step.errors.empty() ? "" : step.errors.front();
}

}  // namespace

TEST_CASE("library_env: the example in C behaves the same for any number of rows and resumes from its bytes") {
  const TempFolder folder;
  const std::string id = compiled(folder, "examples/c_env/hill.c");
  const auto env = make_env(config_of(id, 4)), one = make_env(config_of(id, 1)), other = make_env(config_of(id, 4));
  CHECK(env->spec().max_episode_steps == 100);
  CHECK(env->spec().reports_success);
  CHECK(env->spec().action.high == std::vector<float>{2.0f});
  EnvStep all = EnvStep::allocate(env->spec(), 4), single = EnvStep::allocate(env->spec(), 1), again = all;
  again = EnvStep::allocate(env->spec(), 4);
  env->reset(3, 0, all);
  one->reset(3, 2, single);
  std::string bytes;
  int finished = 0;
  for (uint64_t t = 0; t < 150; ++t) {
    if (t == 50) REQUIRE(env->save(bytes));
    env->step(random_actions(*env, all, t, 0), all);
    one->step(random_actions(*one, single, t, 2), single);
    REQUIRE(row_bytes(all, 2) == row_bytes(single, 0));
    CHECK(all.errors.empty());
    finished += all.truncated.view<uint8_t>()[0] + all.terminated.view<uint8_t>()[0];
  }
  CHECK(finished >= 1);
  REQUIRE(other->load(bytes));
  other->observe(again);
  for (uint64_t t = 50; t < 150; ++t) other->step(random_actions(*other, again, t, 0), again);
  CHECK(all_bytes(again) == all_bytes(all));
}

TEST_CASE("library_env: observations of several dtypes, masks and chunks arrive") {
  const TempFolder folder;
  const std::string id = compiled(folder, "tests/envs/c_abi/faulty.c", "-DMASKED -DALLOWED=0");
  const auto env = make_env(config_of(id, 2));
  EnvStep step = EnvStep::allocate(env->spec(), 2);
  env->reset(1, 0, step);
  CHECK(step.action_mask == Array::of<uint8_t>({2, 2}, {1, 0, 1, 0}));
  env->step(Array::of<int32_t>({2, 1, 1}, {0, 1}), step);
  CHECK(step.observations.at("count") == Array::of<int32_t>({2, 1}, {1, 0}));
  CHECK(step.observations.at("half") == Array::of<float>({2, 1}, {0.5f, 0}));
  CHECK(step.errors == std::vector<std::string>{"row 1: action 1 in dimension 0 is masked out in this state"});
  std::string bytes;
  CHECK(!env->save(bytes));
}

TEST_CASE("library_env: what a library fails to do fails its row") {
  const TempFolder folder;
  const auto error = [&](const std::string& macros) {
    EnvConfig config = config_of(compiled(folder, "tests/envs/c_abi/faulty.c", macros), 1);
    const std::string apart = first_error(config);
    config.isolate = false;
    CHECK(first_error(config) == apart);
    return apart;
  };
  CHECK(error("") == "");
  CHECK(error("-DNAN_REWARD") == "row 0: reward nan is not finite");
  CHECK(error("-DNAN_OBSERVATION") == "row 0: observation half is not finite");
  CHECK(error("-DFAILING") == "row 0: troupe_env_step returned 7");
  CHECK(error("-DFAILING -DWITH_ERROR") == "row 0: the motor is stuck");
  CHECK(error("-DNO_ENV") == "row 0: troupe_env_create failed: no licence");
  CHECK(error("-DOBSERVING='((int32_t*)out[0])[1] = 7'") ==
        "row 0: troupe_env_observe wrote past the end of observation count (4 bytes)");
  CHECK(error("-DOBSERVING='((float*)out[1])[-1] = 7'") ==
        "row 0: troupe_env_observe wrote before the beginning of observation half (4 bytes)");
  CHECK(error("-DSTEPPING='memset(result + 1, 0, 8)'") ==
        "row 0: troupe_env_step wrote past the end of result (16 bytes)");
  CHECK(error("-DMASKED -DALLOWED='1, allowed[2] = 1'") ==
        "row 0: troupe_env_mask wrote past the end of allowed (2 bytes)");
  for (const std::string function : {"create", "reset", "step", "observe"}) {
    EnvConfig config =
        config_of(compiled(folder, "tests/envs/c_abi/throwing.cpp", "'-DTHROWING=\"" + function + "\"'"), 1);
    for (const bool isolate : {true, false}) {
      config.isolate = isolate;
      CHECK(first_error(config) == "row 0: troupe_env_" + function + " threw a C++ exception: no licence");
    }
  }
}

TEST_CASE("library_env: a library that cannot be used is refused with one line") {
  const TempFolder folder;
  CHECK(refusal(folder, "-DVERSION=9") ==
        "env.id: \"ID\": the library has version 9 of troupe_env.h, expected 1; compile it again with the header of "
        "this troupe");
  CHECK(refusal(folder, "-DNO_STEP") ==
        "env.id: \"ID\": the library has no function troupe_env_step, expected those of troupe_env.h");
  CHECK(refusal(folder, "-DONLY_SAVE") ==
        "env.id: \"ID\": the library has troupe_env_save but not troupe_env_load, expected both or neither");
  CHECK(refusal(folder, "-DBOUND=INFINITY") ==
        "ID: the action bounds low -1 and high inf are not both finite (EnvSpec::action)");
  CHECK(refusal(folder, "-DBOUND=-1.0f") == "ID: action bound low -1 is not below high -1 (EnvSpec::action)");
  CHECK(refusal(folder, "-DNO_BINS") == "env.id: \"ID\": bins of the actions is null, expected an array");
  CHECK(refusal(folder, "-DMASKED") ==
        "env.id: \"ID\": actions are masked, but the library has no function troupe_env_mask");
  CHECK(refusal(folder, "-DRANK=7") == "env.id: \"ID\": observation count has 7 dimensions, expected 1 to 6");
  CHECK(refusal(folder, "", R"({"wrong": 1})") ==
        "env.params: {\"wrong\":1} is refused by ID: there is no parameter wrong");
  const auto refused = [](const std::string& id) {
    try {
      make_env(config_of(id, 1));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refused("lib:") == "env.id: \"lib:\": no file is named, expected lib:FILE.so");
  CHECK(refused("lib:no/such.so").starts_with("env.id: \"lib:no/such.so\": there is no file /"));
  std::ofstream(folder / "text.so") << "not a library";
  CHECK(refused("lib:" + folder / "text.so").find("the file cannot be loaded: ") != std::string::npos);
}

TEST_CASE("library_env: what a library describes is checked before it is used") {
  const TempFolder folder;
  const auto describes = [&](const std::string& statement) {
    return refusal(folder, "-DDESCRIBING='" + statement + "'");
  };
  for (const std::string count : {"-1", "0", "1001", "2147483647"})
    CHECK(describes("spec->observation_count = " + count) ==
          "env.id: \"ID\": there are " + count + " observations, expected 1 to 1000");
  CHECK(describes("spec->observations = NULL") == "env.id: \"ID\": there are 0 observations, expected 1 to 1000");
  const std::string shape = "static struct troupe_array huge = {\"big\", 0, 2, {4, 1}}; huge.shape[1] = ";
  for (const std::string extent : {"4611686018427387904", "-1", "0", "1073741824"})
    CHECK(describes(shape + extent + "; spec->observations = &huge; spec->observation_count = 1") ==
          "env.id: \"ID\": observation big has the shape [4, " + extent +
              "], expected extents of at least 1 and at most 1073741824 numbers");
  CHECK(describes("spec->max_episode_steps = -5").starts_with("ID: -5 is negative"));
  CHECK(describes("memset(error, 1, size + 1)") ==
        "env.id: \"ID\": troupe_env_describe wrote past the end of error (256 bytes)");
  const std::string pipe = folder / "pipe.so";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal_of(config_of("lib:" + pipe, 1)) ==
        "env.id: \"ID\": " + pipe + " is not a regular file, expected a shared library");
  for (const std::string function : {"version", "describe"})
    CHECK(
        refusal_of(config_of(compiled(folder, "tests/envs/c_abi/throwing.cpp", "'-DTHROWING=\"" + function + "\"'"), 1))
            .find("troupe_env_" + function + " threw a C++ exception: no\\x0alicence") != std::string::npos);
}

TEST_CASE("library_env: a state or a picture of a wrong size is an error that names the function") {
  const TempFolder folder;
  for (const bool isolate : {true, false})
    for (const std::string size : {"0", "(size_t)-1", "(size_t)1 << 40"}) {
      EnvConfig config = config_of(compiled(folder, "tests/envs/c_abi/faulty.c", "-DSAVING='" + size + "'"), 1);
      config.isolate = isolate;
      const auto env = make_env(config);
      EnvStep step = EnvStep::allocate(env->spec(), 1);
      env->reset(1, 0, step);
      std::string bytes;
      CHECK_THROWS_WITH_AS(env->save(bytes), doctest::Contains("troupe_env_save returned "), std::runtime_error);
      env->step(zeros(*env), step);
      CHECK(step.errors.empty());
    }
  const auto env = make_env(config_of(compiled(folder, "tests/envs/c_abi/faulty.c", "-DRENDERING=-1"), 1));
  EnvStep step = EnvStep::allocate(env->spec(), 1);
  env->reset(1, 0, step);
  CHECK(env->render(0).find("troupe_env_render returned -1, expected a number of bytes in [0, 1048576]\n") !=
        std::string::npos);
}

TEST_CASE("normalize_actions: -1, 0 and 1 are the low bound, the middle and the high bound") {
  EnvConfig config = config_of("Pendulum-v1", 3);
  config.normalize_actions = true;
  const auto scaled = make_env(config);
  config.normalize_actions = false;
  const auto plain = make_env(config);
  CHECK(scaled->spec().action.low == std::vector<float>{-1.0f});
  CHECK(scaled->spec().action.high == std::vector<float>{1.0f});
  EnvStep a = EnvStep::allocate(plain->spec(), 3), b = EnvStep::allocate(plain->spec(), 3);
  plain->reset(1, 0, a);
  scaled->reset(1, 0, b);
  for (const float share : {0.0f, 0.5f, 1.0f}) {
    plain->step(Array::of<float>({3, 1, 1}, {-2 * share, 0, 2 * share}), a);
    scaled->step(Array::of<float>({3, 1, 1}, {-share, 0, share}), b);
    CHECK(all_bytes(a) == all_bytes(b));
  }
  plain->step(Array::of<float>({3, 1, 1}, {-2, 2, 0}), a);
  scaled->step(Array::of<float>({3, 1, 1}, {-5, 1, NAN}), b);  // clipped
  CHECK(row_bytes(a, 0) == row_bytes(b, 0));
  CHECK(row_bytes(a, 1) == row_bytes(b, 1));
  CHECK(b.errors == std::vector<std::string>{"row 2: action nan in dimension 0 is not finite"});
}

TEST_CASE("normalize_actions: discrete actions are refused") {
  EnvConfig config = config_of("CartPole-v1", 1);
  config.normalize_actions = true;
  CHECK_THROWS_WITH_AS(make_env(config),
                       "env.normalize_actions: true with CartPole-v1, whose actions are discrete; expected false, or "
                       "an environment with continuous actions",
                       ConfigError);
}
