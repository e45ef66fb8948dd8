#include "actors/spec_fields.h"

#include <fstream>

#include "actors/run_context.h"
#include "envs/make/make_env.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

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

// Of a token run on these prompts.
SpecFields token_fields(const std::string& lines) {
  const TempFolder folder;
  std::ofstream(folder / "prompts.jsonl") << lines;
  std::ofstream(folder / "held_out.jsonl") << R"({"prompt": "b", "truth": "b"})";
  RunContext context;
  context.config.task = {"dataset", R"({"path": ")" + (folder / "prompts.jsonl") + R"(", "held_out_path": ")" +
                                        (folder / "held_out.jsonl") + "\"}"};
  context.tokens = make_token_run(context.config);
  return made_of(context);
}

std::string value_of(const SpecFields& fields, const std::string& name) {
  for (const auto& [field, value] : fields)
    if (field == name) return value;
  return "missing";
}

}  // namespace

TEST_CASE("made_of: equal prompts are equal in files of other places and with other white space") {
  const SpecFields fields = token_fields(R"({"prompt": "ab", "truth": "ba"})");
  CHECK(made_of_changes(fields, token_fields("\n{\"truth\":\"ba\",\"prompt\":\"ab\",\"id\":1}\n")).empty());
  CHECK(value_of(fields, "tokenizer.kind") == "char");
  CHECK(value_of(fields, kAlphabet) == "ab");
  CHECK(value_of(fields, kTaskData).size() == 16);
}

TEST_CASE("made_of: another truth changes the hash of the prompts and nothing else") {
  const SpecFields before = token_fields(R"({"prompt": "ab", "truth": "ba"})"),
                   now = token_fields(R"({"prompt": "ab", "truth": "ab"})");
  CHECK(made_of_changes(before, now) ==
        std::vector<std::string>{std::string(kTaskData) + " (the hash of the prompts) was " +
                                 value_of(before, kTaskData) + " and is now " + value_of(now, kTaskData)});
}

TEST_CASE("made_of: the first character that differs in an alphabet is named") {
  const std::vector<std::string> changes = made_of_changes(token_fields(R"({"prompt": "ac", "truth": "ca"})"),
                                                           token_fields(R"({"prompt": "aé", "truth": "a"})"));
  REQUIRE(changes.size() == 3);  // also both hashes
  CHECK(changes[1] ==
        "tokenizer.alphabet was abc and is now abé; the first difference is character 2, \"c\" (U+0063) "
        "and \"é\" (U+00E9)");
  const auto joined = spec_difference({{kAlphabet, "ab"}}, {{kAlphabet, "abc"}});
  REQUIRE(joined);
  CHECK(*joined ==
        "tokenizer.alphabet is abc, in the run ab; the first difference is character 2, \"c\" (U+0063) and "
        "its end");
}

TEST_CASE("made_of: a process that does not read the base or the reward model compares the rest") {
  const SpecFields without = {{"task", "reverse"}};
  for (const std::string name : {kModelBase, kRewardModel}) {
    const auto with = [&](const std::string& hash) { return SpecFields{{"task", "reverse"}, {name, hash}}; };
    CHECK(made_of_changes(with("a"), without).empty());
    const std::string setting = name == kModelBase ? "model.path" : "reward_model.path";
    const std::string shown = name + " (the hash of the weights in " + setting + ')';
    CHECK(made_of_changes(without, with("a")) == std::vector<std::string>{shown + " was missing and is now a"});
    CHECK(made_of_changes(with("a"), with("b")) == std::vector<std::string>{shown + " was a and is now b"});
    CHECK_FALSE(spec_difference(with("a"), without));
    CHECK(spec_difference(with("a"), with("b")) ==
          shown + " is b, in the run a; give this process the files of the run");
  }
  CHECK(made_of_changes(without, {}) == std::vector<std::string>{"task was reverse and is now missing"});
  CHECK(made_of_changes({}, without) == std::vector<std::string>{"task was missing and is now reverse"});
}

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
