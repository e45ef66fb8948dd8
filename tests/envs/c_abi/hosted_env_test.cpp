// Environments of shared libraries in processes of their own: the same results as in this process, and whatever a
// function of the library does, this process goes on and says which function of which library it was.

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include "envs/c_abi/hosted_env.h"
#include "envs/c_abi/library_process.h"
#include "runtime/base/log.h"
#include "tests/envs/c_abi/library_fixtures.h"
#include "tests/envs/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const std::string kFaulty = "tests/envs/c_abi/faulty.c";

// The id of an environment whose third step executes the statement.
std::string stepping(const TempFolder& folder, const std::string& statement) {
  return compiled(folder, kFaulty, "-DSTEPPING='" + statement + "'");
}

// The text of the log while `body` runs.
template <class Body>
std::string logged(const TempFolder& folder, Body body) {
  const std::string file = folder / "log.txt";
  std::filesystem::remove(file);
  open_log(posix_disk().open_append(file), {.to_stderr = false});
  body();
  close_log();
  return posix_disk().read(file);
}

// The ids of three environments that print 200 KB, in writes of 60, 1500 and 3000 bytes, in the function of this macro,
// and then wait until all three have done so. Each of them starts or ends in time only if all of them print.
std::vector<std::string> talking(const TempFolder& folder, const std::string& macro) {
  std::vector<std::string> ids;
  for (const std::string size : {"60", "1500", "3000"})
    ids.push_back(compiled(
        folder, kFaulty, "'-DMEETING=\"" + (folder / macro) + "\"' '-D" + macro + "=print_and_meet(" + size + ", 3)'"));
  return ids;
}

}  // namespace

TEST_CASE("hosted_env: results, states and saved episodes are those of the same library in this process") {
  const TempFolder folder;
  EnvConfig config = config_of(compiled(folder, "examples/c_env/hill.c"), 3);
  const auto apart = make_env(config), resumed = make_env(config);
  config.isolate = false;
  const auto here = make_env(config);
  CHECK(apart->spec().blocks);
  EnvStep a = EnvStep::allocate(apart->spec(), 3), b = EnvStep::allocate(apart->spec(), 3),
          c = EnvStep::allocate(apart->spec(), 3);
  apart->reset(5, 7, a);
  here->reset(5, 7, b);
  CHECK(all_bytes(a) == all_bytes(b));
  std::string bytes, bytes_here;
  for (uint64_t t = 0; t < 250; ++t) {
    if (t == 20 || t == 120) apart->set_active(1, t == 120), here->set_active(1, t == 120);
    if (t == 60) REQUIRE((apart->save(bytes) && here->save(bytes_here)));
    const Array actions = random_actions(*here, b, t, 0);
    apart->step(actions, a);
    here->step(actions, b);
    REQUIRE(all_bytes(a) == all_bytes(b));
    CHECK(apart->render(2) == here->render(2));
  }
  for (const std::string& from : {bytes, bytes_here}) {
    REQUIRE(resumed->load(from));
    REQUIRE(here->load(bytes_here));
    for (uint64_t t = 60; t < 120; ++t) {
      const Array actions = random_actions(*here, b, t, 0);
      resumed->step(actions, c);
      here->step(actions, b);
      CHECK(all_bytes(c) == all_bytes(b));
    }
  }
}

TEST_CASE("hosted_env: whatever ends the process fails its rows with the library, the function and the cause") {
  const TempFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"abort()", "ended its process, which was killed by signal 6 (Aborted)"},
      {"*(volatile int*)8 = 1", "ended its process, which was killed by signal 11 (Segmentation fault)"},
      {"for (;;) *(volatile char*)__builtin_alloca(4096) = 1",  // the stack overflows
       "ended its process, which was killed by signal 11 (Segmentation fault)"},
      {"raise(SIGKILL)", "ended its process, which was killed by signal 9 (Killed)"},
      {"exit(0)", "ended its process, which ended with exit code 0"},
      {"_exit(3)", "ended its process, which ended with exit code 3"},
      {"pthread_exit(NULL)",
       "killed by signal 6 (Aborted); the last line of its output: the function called pthread_exit()"},
      {"fprintf(stderr, \"no licence\\n\"); abort()", "; the last line of its output: no licence"},
      {"for (int i = 3; i < 99; ++i) close(i)",
       "its process, in which troupe_env_observe ran last, ended with exit code 0"},
      {"for (;;) sleep(1)", "has not returned within env.step_timeout_ms (300 ms), and the process was killed"},
      {"(void)!write(3, \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", 36)",
       "has written to the connection of its process, and the process was killed"},
  };
  for (const auto& [statement, cause] : cases) {
    CAPTURE(statement);
    EnvConfig config = config_of(stepping(folder, statement), 3);
    if (statement.find("sleep") != std::string::npos) config.step_timeout = std::chrono::milliseconds(300);
    const auto env = make_env(config);
    EnvStep step = EnvStep::allocate(env->spec(), 3);
    env->reset(1, 0, step);
    for (int t = 0; t < 3; ++t) env->step(zeros(*env), step);
    REQUIRE(step.errors.size() == 3);
    CHECK(step.failed == Array::of<uint8_t>({3}, {1, 1, 1}));
    const bool cut = statement.find("close") != std::string::npos || statement.find("write(") != std::string::npos;
    const std::string named = config.id + (cut ? ": " : ": troupe_env_step ");
    CHECK_MESSAGE(step.errors[2].find(named) != std::string::npos, step.errors[2]);
    CHECK_MESSAGE(step.errors[2].find(cause) != std::string::npos, step.errors[2]);
    env->step(zeros(*env), step);  // another process, and new episodes
    CHECK(step.errors.empty());
    CHECK(step.failed == Array::of<uint8_t>({3}, {2, 2, 2}));
    env->step(zeros(*env), step);
    CHECK(step.failed == Array::of<uint8_t>({3}, {0, 0, 0}));
    CHECK(step.observations.at("count") == Array::of<int32_t>({3, 1}, {1, 1, 1}));
  }
}

TEST_CASE("hosted_env: rows that are inactive stay so when the process is lost") {
  const TempFolder folder;
  HostedEnv env({stepping(folder, "abort()"), "{}", 0, std::chrono::seconds(60), std::chrono::seconds(60)}, 2);
  EnvStep step = EnvStep::allocate(env.spec(), 2);
  env.reset(1, 0, step);
  env.set_active(0, false);
  for (int t = 0; t < 3; ++t) env.step(zeros(env), step);
  CHECK(step.failed == Array::of<uint8_t>({2}, {2, 1}));
  CHECK(step.errors.size() == 1);
  env.step(zeros(env), step);
  CHECK(step.failed == Array::of<uint8_t>({2}, {2, 2}));
  env.set_active(0, true);
  env.step(zeros(env), step);
  CHECK(step.failed == Array::of<uint8_t>({2}, {2, 0}));
  env.step(zeros(env), step);
  CHECK(step.failed == Array::of<uint8_t>({2}, {0, 0}));
  REQUIRE(::kill(env.process_id(), SIGKILL) == 0);  // between two steps
  env.set_active(1, false);
  env.set_active(1, true);
  env.step(zeros(env), step);
  CHECK(step.errors.size() == 2);
  CHECK(step.errors[0].find("was killed by signal 9 (Killed)") != std::string::npos);
}

TEST_CASE("hosted_env: episodes begin singly as in this process, also in the process after one that was lost") {
  const TempFolder folder;
  EnvConfig config = config_of(compiled(folder, "examples/c_env/hill.c"), 3);
  const auto apart = make_env(config), other = make_env(config);
  REQUIRE(apart->play_singly(4));
  CHECK(difference_of_singles(*apart, *other, 4, 5, 500) == "");
  CHECK(difference_of_singles(*apart, *other, 4, 2, 500) == "");
  HostedEnv env({stepping(folder, "abort()"), "{}", 0, std::chrono::seconds(60), std::chrono::seconds(60)}, 2);
  EnvStep step = EnvStep::allocate(env.spec(), 2);
  REQUIRE(env.play_singly(4));
  for (int episode = 0; episode < 3; ++episode) {
    env.begin_episode(1, 8);
    env.step(zeros(env), step);
    CHECK(step.failed == Array::of<uint8_t>({2}, {2, 2}));
    for (int t = 0; t < 3; ++t) env.step(zeros(env), step);
    CHECK(step.failed == Array::of<uint8_t>({2}, {2, 1}));
    CHECK(step.errors.size() == 1);
  }
}

TEST_CASE("hosted_env: a process that is lost between two steps fails its rows when they are observed") {
  const TempFolder folder;
  HostedEnv env(
      {compiled(folder, "examples/c_env/hill.c"), "{}", 0, std::chrono::seconds(60), std::chrono::seconds(60)}, 2);
  EnvStep step = EnvStep::allocate(env.spec(), 2);
  for (const bool noticed : {true, false}) {
    CAPTURE(noticed);
    env.reset(1, 0, step);
    REQUIRE(::kill(env.process_id(), SIGKILL) == 0);
    if (noticed) env.set_active(0, true);
    CHECK(env.render(0).find(noticed ? "its process was lost" : "was killed by signal 9") != std::string::npos);
    env.observe(step);
    CHECK(step.failed == Array::of<uint8_t>({2}, {1, 1}));
    REQUIRE(step.errors.size() == 2);
    CHECK(step.errors[1].find("was killed by signal 9 (Killed)") != std::string::npos);
    env.step(zeros(env), step);
    CHECK(step.failed == Array::of<uint8_t>({2}, {2, 2}));
    CHECK(step.errors.empty());
  }
}

TEST_CASE("hosted_env: a state that is saved after its process was lost begins new episodes") {
  const TempFolder folder;
  const LibraryTarget target{compiled(folder, "examples/c_env/hill.c"), "{}", 0, std::chrono::seconds(60),
                             std::chrono::seconds(60)};
  HostedEnv env(target, 2), resumed(target, 2);
  EnvStep step = EnvStep::allocate(env.spec(), 2);
  for (const bool noticed : {true, false}) {
    CAPTURE(noticed);
    env.reset(1, 0, step);
    for (int t = 0; t < 3; ++t) env.step(zeros(env), step);
    REQUIRE(::kill(env.process_id(), SIGKILL) == 0);
    if (noticed) env.set_active(0, true);
    std::string bytes;
    REQUIRE(env.save(bytes));
    env.step(zeros(env), step);
    CHECK(step.failed == Array::of<uint8_t>({2}, {1, 1}));  // reported, although save() has noticed it
    CHECK(step.errors.size() == 2);
    REQUIRE(resumed.load(bytes));
    resumed.observe(step);
    CHECK(step.failed == Array::of<uint8_t>({2}, {2, 2}));
    CHECK(step.errors.empty());
    resumed.step(zeros(env), step);
    CHECK(step.failed == Array::of<uint8_t>({2}, {0, 0}));
  }
}

TEST_CASE("hosted_env: environments that start together may print more than a pipe holds") {
  const TempFolder folder;
  for (const std::string macro : {"CREATING", "RESETTING"}) {
    CAPTURE(macro);
    std::vector<std::unique_ptr<Env>> envs;
    for (const std::string& id : talking(folder, macro)) {
      EnvConfig config = config_of(id, 1);
      config.start_timeout = std::chrono::seconds(20);  // they take milliseconds, or for ever
      envs.push_back(make_env(config));
    }
    for (const auto& env : envs) env->begin_reset(1, 0);
    for (const auto& env : envs) {
      EnvStep step = EnvStep::allocate(env->spec(), 1);
      env->reset(1, 0, step);
      CHECK_MESSAGE(step.errors.empty(), step.errors.front());
    }
  }
}

TEST_CASE("hosted_env: environments that end together may print more than a pipe holds") {
  const TempFolder folder;
  const std::string text = logged(folder, [&] {
    std::vector<std::unique_ptr<Env>> envs;
    for (const std::string& id : talking(folder, "DESTROYING")) {
      envs.push_back(make_env(config_of(id, 1)));
      EnvStep step = EnvStep::allocate(envs.back()->spec(), 1);
      envs.back()->reset(1, 0, step);
    }
    for (const auto& env : envs) env->begin_close();
  });
  CHECK_MESSAGE(text.find("is killed") == std::string::npos, text);
}

TEST_CASE("hosted_env: environments that do not start fail after one start timeout, not one after the other") {
  const TempFolder folder;
  const std::chrono::milliseconds limit(3000);
  for (const std::string function : {"CREATING", "RESETTING"}) {
    CAPTURE(function);
    // The second would start within its limit if that counted from the end of the first one's.
    std::vector<std::unique_ptr<HostedEnv>> envs;
    for (const std::string statement : {"for (;;) sleep(1)", "sleep(5)"})
      envs.push_back(
          std::make_unique<HostedEnv>(LibraryTarget{compiled(folder, kFaulty, "'-D" + function + "=" + statement + "'"),
                                                    "{}", 0, std::chrono::seconds(60), limit},
                                      2));
    for (const auto& env : envs) env->begin_reset(1, 0);
    for (const auto& env : envs) {
      EnvStep step = EnvStep::allocate(env->spec(), 2);
      env->reset(1, 0, step);
      CHECK(step.failed == Array::of<uint8_t>({2}, {1, 1}));
      REQUIRE(step.errors.size() == 2);
      CHECK_MESSAGE(step.errors[0].find(" has not returned within env.start_timeout_ms (3000 ms)") != std::string::npos,
                    step.errors[0]);
    }
  }
}

TEST_CASE("hosted_env: the limit of an evaluation is named where it is shorter") {
  const TempFolder folder;
  for (const std::string function : {"CREATING", "STEPPING"}) {
    const EnvConfig config = config_of(compiled(folder, kFaulty, "-D" + function + "='for (;;) sleep(1)'"), 1);
    make_env(config);  // asks what the library observes, for which 600 ms could be short
    const auto env = make_evaluation_env(config, "{}", 1, std::chrono::milliseconds(600));
    EnvStep step = EnvStep::allocate(env->spec(), 1);
    env->reset(1, 0, step);
    while (step.errors.empty()) env->step(zeros(*env), step);
    CHECK_MESSAGE(step.errors[0].find(" has not returned within evaluation.timeout_ms (600 ms)") != std::string::npos,
                  step.errors[0]);
  }
}

TEST_CASE("hosted_env: a reset that was begun has the results of one that was not") {
  const TempFolder folder;
  const LibraryTarget target{compiled(folder, "examples/c_env/hill.c"), "{}", 0, std::chrono::seconds(60),
                             std::chrono::seconds(60)};
  HostedEnv begun(target, 2), usual(target, 2);
  EnvStep a = EnvStep::allocate(begun.spec(), 2), b = EnvStep::allocate(usual.spec(), 2);
  for (const uint64_t seed : {5, 6}) {
    begun.begin_reset(seed, 3);
    begun.reset(seed, 3, a);
    usual.reset(seed, 3, b);
    CHECK(all_bytes(a) == all_bytes(b));
  }
}

TEST_CASE("hosted_env: environments that do not end are killed, each with a line in the log") {
  const TempFolder folder;
  const std::string text = logged(folder, [&] {
    const std::string id = compiled(folder, kFaulty, "-DDESTROYING='for (;;) sleep(1)'");
    std::vector<std::unique_ptr<Env>> envs;
    for (int i = 0; i < 3; ++i) {
      envs.push_back(make_env(config_of(id, 1)));
      EnvStep step = EnvStep::allocate(envs.back()->spec(), 1);
      envs.back()->reset(1, 0, step);
    }
    for (const auto& env : envs) env->begin_close();
  });
  const std::string line = ": its process is still in troupe_env_destroy after 2000 ms and is killed";
  CHECK_MESSAGE(text.find(line) != std::string::npos, text);
}

TEST_CASE("hosted_env: a library that ends its process before the first step is refused with one line") {
  const TempFolder folder;
  const auto refused = [&](const std::string& macros, std::chrono::milliseconds start = std::chrono::seconds(60)) {
    EnvConfig config = config_of(compiled(folder, kFaulty, macros), 1);
    config.start_timeout = config.step_timeout = start;
    return refusal_of(config);
  };
  const std::string begin = "env.id: \"ID\" cannot be used: ID: ";
  CHECK(refused("-DDESCRIBING='abort()'") ==
        begin + "troupe_env_describe ended its process, which was killed by signal 6 (Aborted)");
  CHECK(refused("-DDESCRIBING='exit(0)'") ==
        begin + "troupe_env_describe ended its process, which ended with exit code 0");
  CHECK(refused("-DDESCRIBING='spec->observations = (void*)8'") ==
        begin + "troupe_env_describe ended its process, which was killed by signal 11 (Segmentation fault)");
  CHECK(refused("-DLOADING='exit(7)'") == begin + "its loading ended its process, which ended with exit code 7");
  CHECK(refused("-DDESCRIBING='for (;;) sleep(1)'", std::chrono::milliseconds(300)) ==
        begin +
            "troupe_env_describe has not returned within env.start_timeout_ms (300 ms), and the process was killed");
  // A file of which the end is missing: reading it is a bus error.
  const std::string whole = compiled(folder, kFaulty);
  const std::string file = whole.substr(4);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const std::string cut = refusal_of(config_of(whole, 1));
  CHECK_MESSAGE((cut.find("its loading ended its process, which was killed by signal") != std::string::npos ||
                 cut.find("the file cannot be loaded: ") != std::string::npos),
                cut);
}

TEST_CASE("hosted_env: a destroy that fails is a line in the log and nothing else") {
  const TempFolder folder;
  const auto destroyed = [&](const std::string& id) {
    return logged(folder, [&] {
      const auto env = make_env(config_of(id, 2));
      EnvStep step = EnvStep::allocate(env->spec(), 2);
      env->reset(1, 0, step);
      env->step(zeros(*env), step);
    });
  };
  const std::string crash = destroyed(compiled(folder, kFaulty, "-DDESTROYING='abort()'"));
  CHECK_MESSAGE(crash.find("its process was killed by signal 6 (Aborted) in troupe_env_destroy") != std::string::npos,
                crash);
  const std::string code = destroyed(compiled(folder, kFaulty, "-DDESTROYING='exit(0)'"));
  CHECK_MESSAGE(code.find("in troupe_env_destroy") != std::string::npos, code);
  const std::string thrown = destroyed(compiled(folder, "tests/envs/c_abi/throwing.cpp", "'-DTHROWING=\"destroy\"'"));
  CHECK_MESSAGE(thrown.find("troupe_env_destroy threw a C++ exception: no licence") != std::string::npos, thrown);
}

TEST_CASE(
    "hosted_env: a process that stops reading while a state is sent to it is given up after the limit of a step") {
  const TempFolder folder;
  const std::chrono::milliseconds limit(3000);
  LibraryProcess process({compiled(folder, kFaulty), "{}", 0, limit, limit}, 1);
  REQUIRE(kill(process.id(), SIGSTOP) == 0);
  try {
    process.ask(HostRequest::load, 0, 0, std::string(16 << 20, 'x'));
    FAIL("the process has answered");
  } catch (const LibraryLost& error) {
    CHECK_MESSAGE(
        std::string(error.what()).find("has not returned within env.start_timeout_ms (3000 ms)") != std::string::npos,
        error.what());
  }
}
