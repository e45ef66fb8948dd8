// Which settings a token run has, and which it refuses.

#include <fstream>

#include "actors/config/config.h"
#include "actors/experience/answers/token_run.h"
#include "algorithms/advantages/advantages.h"
#include "algorithms/choice/algorithm_choice.h"
#include "models/lm/lm_config.h"
#include "runtime/base/errors.h"
#include "tests/actors/config/config_errors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

RunConfig token_config(const std::vector<std::string>& overrides) {
  RunConfig config = parse_config(R"({
    "model": {"kind": "decoder", "decoder": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                                              "num_key_value_heads": 1, "intermediate_size": 32}},
    "algorithm": {"advantage": "rloo"}, "trainer": {"super_batch": 64}, "stop": {"updates": 3}})",
                                  "run.json");
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  return config;
}

std::string error_with(const std::vector<std::string>& overrides) {
  const RunConfig config = token_config(overrides);
  try {
    validate(config);
    check_algorithm(config.algorithm, config.trainer.micro_batch, config.trainer.micro_batch_tokens);
    const auto run = make_token_run(config);
    check_answers(config, *run);
    lm_shape_of(config.model, run->tokenizer->vocabulary_size(), run->prompt_tokens + run->answer_tokens);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("token_rules: a token run refuses the settings of environments, and the other way round") {
  CHECK(error_with({}) == "");
  CHECK(rule_error({}) == "");
  CHECK(error_with({"env.rows=8"}).starts_with("env.rows: 8 has no effect with model.kind \"decoder\""));
  CHECK(error_with({"rollout.length=8"}).starts_with("rollout.length: 8 has no effect with model.kind \"decoder\""));
  CHECK(
      error_with({"trainer.value_only_updates=1"})
          .starts_with("trainer.value_only_updates: 1 has no effect with model.critic \"none\"; set model.critic to"));
  CHECK(rule_error({"generation.answers=4"})
            .starts_with("generation.answers: 4 has no effect with model.kind \"mlp\"; set model.kind to \"decoder\""));
  CHECK(rule_error({"task.name=sort"}).starts_with("task.name: \"sort\" has no effect with model.kind \"mlp\""));
  CHECK(rule_error({"stop.after_warmup=true"}).starts_with("stop.after_warmup: true has no effect with model.kind "));
  CHECK(error_with({"stop.after_warmup=true"})
            .starts_with("stop.after_warmup: true has no effect with warmup.steps 0; set warmup.steps"));
  CHECK(error_with({"stop.after_warmup=true", "warmup.steps=5", "stop.updates=0", "stop.env_steps=0"}) == "");
  CHECK(rule_error({"model.critic=shared"}).starts_with("model.critic: \"shared\" has no effect with model.kind "));
  CHECK(rule_error({"warmup.steps=5"}).starts_with("warmup.steps: 5 has no effect with model.kind \"mlp\""));
}

TEST_CASE("token_rules: every setting of a section that has no effect must have its default") {
  const auto changed = [](const SettingInfo& setting) -> std::string {
    if (setting.fallback == "true" || setting.fallback == "false") return setting.fallback == "true" ? "false" : "true";
    if (setting.path == "env.params" || setting.path == "task.params") return R"({"a": 1})";
    if (setting.path == "task.verifier" || setting.path == "task.reply") return "py:rewards.py:reward";
    if (setting.type != "string") return setting.path == "warmup.pass_at_1" ? "1" : "7";
    const std::string choices = setting.range.starts_with("one of: ") ? setting.range.substr(8) : "";
    return choices.empty() ? "other" : choices.substr(choices.rfind(' ') + 1);
  };
  const auto check_section = [&](const std::string& section, const auto& error_of, const std::string& because) {
    for (const SettingInfo& setting : describe_fields()) {
      if (section_of(setting.path) != section) continue;
      const std::string error = error_of({setting.path + '=' + changed(setting)});
      CHECK_MESSAGE(error.starts_with(setting.path + ": "), setting.path, ": ", error);
      CHECK_MESSAGE(error.find(" has no effect with " + because) != std::string::npos, error);
    }
  };
  for (const char* section : {"task", "tokenizer", "generation", "warmup", "reference", "reward_model", "scorers"})
    check_section(section, rule_error, "model.kind \"mlp\"; set model.kind to \"decoder\", or remove ");
  for (const char* section : {"env", "rollout"}) check_section(section, error_with, "model.kind \"decoder\"; ");
}

TEST_CASE("token_rules: the steps alone switch a warm-up off") {
  // A warm-up is switched off without its other settings being taken back.
  CHECK(error_with({"warmup.pass_at_1=0.9", "warmup.steps=0"}) == "");
}

TEST_CASE("token_rules: settings of verifiers need one, and a deterministic run cannot have one") {
  const std::string verifier = "task.verifier=py:rewards.py:reward";
  CHECK(error_with({verifier}) == "");
  CHECK(error_with({verifier, "task.verifier_processes=2", "task.verifier_timeout_ms=5", "task.python=python3.11"}) ==
        "");
  CHECK(error_with({"task.verifier_processes=2"}) ==
        "task.verifier_processes: 2 has no effect with task.verifier \"\"; set task.verifier to py:MODULE:CALLABLE, or "
        "remove task.verifier_processes (default 1)");
  for (const char* setting :
       {"task.python=python3.11", "task.verifier_timeout_ms=5", "task.verifier_start_timeout_ms=5"})
    CHECK(error_with({setting}).find("has no effect with task.verifier \"\"") != std::string::npos);
  CHECK(error_with({verifier, "task.python="}) == "task.python: \"\" is empty, expected the name or path of a program");
  CHECK(error_with({verifier, "deterministic=true"})
            .starts_with("task.verifier: \"py:rewards.py:reward\" cannot go with deterministic true, because"));
  CHECK(rule_error({verifier}).starts_with("task.verifier: \"py:rewards.py:reward\" has no effect with model.kind"));
  for (const char* wrong : {"rewards.py:reward", "py:rewards", "py::reward", "py:rewards:", "gym:a:b"})
    CHECK_THROWS_AS(error_with({std::string("task.verifier=") + wrong}), ConfigError);
}

TEST_CASE("token_rules: what token runs cannot do yet is refused by name") {
  CHECK(error_with({"trainer.device=cuda"}) ==
        "trainer.device: \"cuda\" cannot be used in token runs yet; use \"cpu\"");
  for (const std::string path : {"inference.device", "evaluation.device"}) {
    CHECK(error_with({path + "=cuda:1"}) ==
          path + ": \"cuda:1\" cannot be used in token runs yet; use \"auto\" or \"cpu\"");
    CHECK(error_with({path + "=cpu"}) == "");
  }
}

TEST_CASE("token_rules: penalties and masks of long answers need each other's settings, and a token run") {
  const std::string penalty = "algorithm.overlong_penalty=1", buffer = "algorithm.overlong_buffer=4";
  CHECK(error_with({penalty, buffer}) == "");
  CHECK(
      error_with({buffer}) ==
      "algorithm.overlong_buffer: 4 has no effect with algorithm.overlong_penalty 0; set algorithm.overlong_penalty to "
      "1, or remove algorithm.overlong_buffer (default 0)");
  CHECK(
      error_with({penalty}) ==
      "algorithm.overlong_buffer: 0 leaves no tokens over which algorithm.overlong_penalty 1 could grow; use at least "
      "1");
  CHECK(error_with({"algorithm.mask_cut_answers=true"}) == "");
  CHECK(error_with({"algorithm.mask_cut_answers=true", "algorithm.advantage=gae", "model.critic=shared",
                    "algorithm.bootstrap_cut_answers=true"})
            .starts_with("algorithm.bootstrap_cut_answers: true has no effect with algorithm.mask_cut_answers true"));
  for (const std::string& setting : {penalty, buffer, std::string("algorithm.mask_cut_answers=true")}) {
    const std::string name = setting.substr(0, setting.find('='));
    CHECK(rule_error({setting}).starts_with(name + ": "));
    CHECK(rule_error({setting}).find("has no effect with model.kind ") != std::string::npos);
  }
}

TEST_CASE("token_rules: a correction of the lag, and the proximal policy that only token runs choose") {
  const std::string correction = "algorithm.rollout_correction.is=token";
  CHECK(error_with({correction}) == "");
  for (const char* proximal : {"computed", "interpolated"})
    CHECK(error_with({correction, std::string("algorithm.proximal=") + proximal}) == "");
  CHECK(error_with({"algorithm.rollout_correction.is=none", "algorithm.proximal=rollout"}) == "");
  CHECK(error_with({"algorithm.proximal=interpolated"}) ==
        "algorithm.proximal: \"interpolated\" has no effect with algorithm.rollout_correction {}; set "
        "algorithm.rollout_correction.is to \"token\", or remove algorithm.proximal (default \"computed\")");
  CHECK(rule_error({correction, "algorithm.proximal=interpolated"})
            .starts_with("algorithm.proximal: \"interpolated\" has no effect with model.kind "));
}

TEST_CASE("token_rules: tokens that are too old can be masked in answers, where each sample is used once") {
  CHECK(error_with({"replay.late=mask"}) == "");
  CHECK(error_with({"replay.late=mask", "replay.mode=reuse"})
            .starts_with("replay.late: \"mask\" has no effect with replay.mode \"reuse\""));
  CHECK(
      rule_error({"replay.late=mask"}) ==
      "replay.late: \"mask\" has no effect with model.kind \"mlp\", which makes no answers; use \"wait\" or \"drop\"");
  for (const char* late : {"auto", "wait", "mask", "drop"}) {
    const RunConfig config = token_config({std::string("replay.late=") + late});
    CHECK(waits_for_late(config) == (std::string(late) == "auto" || std::string(late) == "wait"));
    CHECK(masks_late(config) == (std::string(late) == "mask"));
  }
}

TEST_CASE("token_rules: remax has a greedy answer to each prompt, and learns from groups with equal rewards") {
  CHECK(error_with({"algorithm.advantage=remax"}) == "");
  CHECK(error_with({"algorithm.advantage=remax", "generation.answers=1"}) == "");
  CHECK(error_with({"algorithm.advantage=remax", "replay.filter_groups=true"})
            .starts_with("replay.filter_groups: true would leave out groups from which algorithm.advantage \"remax\""));
  RunConfig config;
  CHECK_FALSE(needs_greedy_answer(config));
  config.model.kind = kDecoderKind;
  CHECK(answers_asked(config) == config.generation.answers);
  config.algorithm.advantage = "remax";
  CHECK(answers_asked(config) == config.generation.answers + 1);
}

TEST_CASE("token_rules: prompts that the task generates cannot be drawn by their failures") {
  CHECK(error_with({"task.sampling=failure_weighted"}) ==
        "task.sampling: \"failure_weighted\" needs a list of prompts, and the task reverse generates its prompts; use "
        "\"permutation\", or the task dataset or one in Python");
  CHECK(rule_error({"task.sampling=failure_weighted"}).find("has no effect with model.kind") != std::string::npos);
}

TEST_CASE("token_rules: what new weights do to answers in progress is one of three words, and only of token runs") {
  for (const char* word : {"keep", "recompute", "finish"})
    CHECK(error_with({std::string("generation.on_new_weights=") + word}) == "");
  CHECK_THROWS_WITH_AS(
      error_with({"generation.on_new_weights=restart"}),
      "--set: generation.on_new_weights: \"restart\" is unknown, expected one of: keep, recompute, finish",
      ConfigError);
  CHECK(rule_error({"generation.on_new_weights=finish"})
            .starts_with("generation.on_new_weights: \"finish\" has no effect with model.kind \"mlp\""));
}

TEST_CASE("token_rules: several turns need a task or a function that replies") {
  CHECK(error_with({"task.name=countdown", "task.turns=3"}) == "");
  CHECK(error_with({"task.turns=2"}) ==
        "task.turns: 2 has no effect with the task reverse, which gives no messages; use 1, set task.reply, or take a "
        "task that replies");
  CHECK(error_with({"task.turns=2", "task.reply=py:tools.py:reply"}) ==
        "task.message_tokens: 0 takes the longest message of the task, and functions in Python know none; set it");
  CHECK(error_with({"task.turns=2", "task.reply=py:tools.py:reply", "task.message_tokens=8"}) == "");
  CHECK(error_with({"task.reply=py:tools.py:reply"})
            .starts_with("task.reply: \"py:tools.py:reply\" has no effect with task.turns 1"));
  CHECK(error_with({"task.message_tokens=8"}).starts_with("task.message_tokens: 8 has no effect with task.turns 1"));
  CHECK(error_with({"task.turns=2", "task.reply=py:tools.py:reply", "task.message_tokens=8", "deterministic=true"})
            .starts_with("task.reply: \"py:tools.py:reply\" cannot go with deterministic true"));
  CHECK(rule_error({"task.turns=2"}).find("has no effect with model.kind") != std::string::npos);
}

TEST_CASE("token_rules: the model needs positions for the longest conversation") {
  const RunConfig config = token_config({"task.name=countdown", "task.turns=3", "generation.max_tokens=10"});
  const auto run = make_token_run(config);
  CHECK(run->sampled_tokens() == 30);
  CHECK(run->message_tokens == 8);  // "=999999:"
  CHECK(run->conversation_tokens() == 46);
}

TEST_CASE("token_rules: an evaluation has several answers to a prompt only if it samples them") {
  CHECK(error_with({"evaluation.answers=4", "evaluation.temperature=0.6"}) == "");
  CHECK(error_with({"evaluation.temperature=0.6"}) == "");
  CHECK(error_with({"evaluation.answers=4"})
            .starts_with("evaluation.answers: 4 would be as many equal answers with evaluation.temperature 0, "));
  CHECK(error_with({"evaluation.temperature=0.0001"}) ==
        "evaluation.temperature: 1e-04 is out of range, expected 0 or a number from 0.001 to 100");
  for (const char* setting : {"evaluation.answers=4", "evaluation.temperature=0.6"})
    CHECK(rule_error({setting}).find(" has no effect with model.kind \"mlp\"") != std::string::npos);
}

TEST_CASE("token_rules: a critic goes with the estimators that use values, and its settings with it") {
  for (const AdvantageEntry& entry : advantage_table()) {
    const std::string advantage = "algorithm.advantage=" + std::string(entry.name);
    const bool values = entry.name == "gae" || entry.name == "vtrace";
    for (const char* critic : {"shared", "separate"})
      CHECK((error_with({advantage, std::string("model.critic=") + critic}) == "") == values);
    CHECK((error_with({advantage}) == "") == !values);
  }
  CHECK(error_with({"algorithm.advantage=gae"}) ==
        "algorithm.advantage: \"gae\" needs a critic, and model.critic is \"none\"; set model.critic to \"shared\" or "
        "\"separate\", or algorithm.advantage to \"rloo\", \"grpo\" or \"reinforce_plus_plus\"");
  CHECK(error_with({"model.critic=shared"}) ==
        "model.critic: \"shared\" has no effect with algorithm.advantage \"rloo\", which uses no values; set "
        "algorithm.advantage to \"gae\" or \"vtrace\", or remove model.critic (default \"none\")");
  const std::vector<std::string> with_critic = {"algorithm.advantage=gae", "model.critic=shared"};
  for (const std::string setting : {"algorithm.bootstrap_cut_answers=true", "algorithm.value_loss=huber",
                                    "algorithm.value_coef=1", "algorithm.value_clip=0.2", "trainer.value_lr=1e-3",
                                    "trainer.value_only_updates=2", "trainer.value_epochs=5"}) {
    const std::string name = setting.substr(0, setting.find('='));
    CHECK(error_with({with_critic[0], with_critic[1], setting}) == "");
    CHECK(error_with({setting}).starts_with(name + ": "));
    CHECK(error_with({setting}).find("has no effect with model.critic \"none\"") != std::string::npos);
  }
  CHECK(error_with({with_critic[0], with_critic[1], "algorithm.value_coef=0"})
            .starts_with("algorithm.value_coef: 0 would"));
  CHECK(error_with({with_critic[0], with_critic[1], "model.critic_path=a"})
            .starts_with("model.critic_path: \"a\" has no effect with model.critic \"shared\"; set model.critic to "));
}

TEST_CASE("token_rules: the settings of a reference need one, and an estimate that fits where it counts") {
  CHECK(rule_error({"reference.model=start"}).starts_with("reference.model: \"start\" has no effect with model.kind "));
  CHECK(rule_error({"algorithm.reward_clip=2"}).starts_with("algorithm.reward_clip: 2 has no effect with model.kind "));
  for (const std::string setting :
       {"reference.in=loss", "reference.kl=k2", "reference.kl_coef=0.2", "reference.kl_controller=adaptive"}) {
    CHECK(error_with({setting}).find("has no effect with reference.model \"none\"") != std::string::npos);
    CHECK(error_with({"reference.model=start", setting}) == "");
  }
  CHECK(error_with({"algorithm.reward_clip=2"}) == "");
  CHECK(error_with({"reference.model=start", "reference.kl_target=1"})
            .starts_with("reference.kl_target: 1 has no effect with reference.kl_controller \"fixed\""));
  CHECK(error_with({"reference.model=start", "reference.kl=k9"}).starts_with("reference.kl: "));
  CHECK(error_with({"reference.model=start", "reference.kl=full"})
            .starts_with("reference.kl: \"full\" cannot be used with reference.in \"reward\""));
  CHECK(
      error_with({"reference.model=start", "reference.kl=k3+"})
          .starts_with("reference.kl: \"k3+\" has a gradient of its own, which reference.in \"reward\" does not use"));
  for (const char* kl : {"reference.kl=full", "reference.kl=k3+"})
    CHECK(error_with({"reference.model=start", "reference.in=loss", kl}) == "");
  const std::vector<std::string> adaptive = {"reference.model=start", "reference.kl_controller=adaptive"};
  CHECK(error_with({adaptive[0], adaptive[1], "reference.kl_coef=0"}).starts_with("reference.kl_coef: 0 stays 0 with"));
  CHECK(error_with({adaptive[0], adaptive[1], "reference.kl_horizon=12"})
            .starts_with("reference.kl_horizon: 12 lets one update of trainer.super_batch 64 answers turn the sign"));
}

TEST_CASE("token_rules: algorithm.kl_horizon is compared with the answers of a super-batch, which has no rollouts") {
  const std::vector<std::string> adaptive = {"algorithm.kl_controller=adaptive", "algorithm.kl_coef=0.1"};
  const auto error = [&](const std::string& horizon) {
    return error_with({adaptive[0], adaptive[1], "algorithm.kl_horizon=" + horizon});
  };
  CHECK(error("15") == "");
  CHECK(error("12") ==
        "algorithm.kl_horizon: 12 lets one update of up to 64 samples (trainer.super_batch 64) turn the sign of "
        "kl_coef; use more than 12.8");
}

TEST_CASE("token_rules: the settings of a reward model need one, and one of the weights must count") {
  const std::string model = "reward_model.path=models/reward";
  for (const std::string setting : {"reward_model.weight=2", "reward_model.threads=2", "task.weight=0"}) {
    CHECK(error_with({setting}).find("has no effect with reward_model.path \"\"") != std::string::npos);
    CHECK(error_with({model, setting}) == "");
  }
  CHECK(rule_error({model}).starts_with("reward_model.path: \"models/reward\" has no effect with model.kind "));
  CHECK(error_with({model, "reward_model.weight=0", "task.weight=0"}) ==
        "reward_model.weight: 0 and task.weight 0 make every reward 0; use another weight for one of them");
  CHECK(error_with({model, "reward_model.weight=0"}) == "");
  CHECK(error_with({model, "deterministic=true"}) == "");
  CHECK(error_with({model, "deterministic=true", "reward_model.threads=2"})
            .starts_with("reward_model.threads: 2 cannot go with deterministic true"));
}

TEST_CASE("token_rules: groups of one answer are refused with estimators that learn nothing from them") {
  CHECK(error_with({"generation.answers=1"}) ==
        "generation.answers: 1 makes groups of one answer, whose advantage is always 0 with algorithm.advantage "
        "\"rloo\"; use at least 2");
  CHECK(
      error_with({"generation.answers=1", "algorithm.advantage=rloo_vectorized"}).find("whose advantage is always 0") !=
      std::string::npos);
  CHECK(error_with({"generation.answers=1", "algorithm.advantage=grpo_passk"}) ==
        "generation.answers: 1 makes groups of one answer, which cannot be compared by algorithm.advantage "
        "\"grpo_passk\"; use at least 2");
  CHECK(error_with({"generation.answers=1", "algorithm.advantage_params.singleton=score"}) == "");
  for (const char* estimator : {"grpo", "dr_grpo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "opo", "gpg"})
    CHECK(error_with({"generation.answers=1", std::string("algorithm.advantage=") + estimator}) == "");
}

TEST_CASE("token_rules: a temperature whose inverse is no number is refused") {
  RunConfig config = token_config({});
  for (const char* tiny : {"1e-40", "1e-300", "0", "0.0009"})
    CHECK_THROWS_AS(apply_override(config, std::string("generation.temperature=") + tiny), ConfigError);
  CHECK(error_with({"generation.temperature=0.001"}) == "");
}

TEST_CASE("token_rules: micro-batches that cannot hold the longest answer are refused") {
  const std::string most = "trainer.micro_batch_tokens=";  // 10 tokens of a prompt and 9 of an answer
  CHECK(error_with({most + "0"}) == "");
  CHECK(error_with({most + "19"}) == "");
  CHECK(
      error_with({most + "18"}) ==
      "trainer.micro_batch_tokens: 18 is less than the longest answer with its prompt, which may have 19 tokens (10 of "
      "the prompt and 9 of the answer); use at least 19, or 0");
}

TEST_CASE("token_rules: a task whose right answers cannot be given is refused") {
  CHECK(error_with({"generation.max_tokens=9"}) == "");
  const std::string error = error_with({"generation.max_tokens=8"});
  CHECK(error.starts_with("task.params: a prompt is \""));
  CHECK(error.ends_with("\" has 9 tokens with the one that ends it, but generation.max_tokens is 8"));
  TempFolder folder;
  const auto with_truth = [&](const std::string& truth, const std::vector<std::string>& more = {}) {
    std::ofstream(folder / "a") << R"({"prompt": "p", "truth": ")" << truth << "\"}\n";
    std::ofstream(folder / "b") << R"({"prompt": "q", "truth": "qp", "demonstration": "qp"})";
    std::vector<std::string> overrides = {"task.name=dataset", R"(task.params={"path": ")" + (folder / "a") +
                                                                   R"(", "held_out_path": ")" + (folder / "b") + "\"}"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const std::string what = error_with(overrides), begin = folder / "a" + ":1: ";
    return what.starts_with(begin) ? what.substr(begin.size()) : what;
  };
  CHECK(with_truth("pq") == "");
  CHECK(with_truth("p<eos>") == "its right answer \"p<eos>\" has a special token, which is left out of answers");
  std::ofstream(folder / "a")
      << R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], )"
      << R"("truth": "s"})";
  CHECK(error_with({"task.name=dataset", R"(task.params={"path": ")" + (folder / "a") + R"(", "held_out_path": ")" +
                                             (folder / "b") + "\"}"}) ==
        (folder / "a") +
            ":1: tokenizer.chat_template: none has no place for a conversation of 2 messages, expected chatml");
  CHECK(with_truth("pqpq", {"generation.max_tokens=4"}) ==
        "its right answer \"pqpq\" has 5 tokens with the one that ends it, but generation.max_tokens is 4");
}

TEST_CASE("token_rules: sizes that do not fit each other are refused with both values") {
  CHECK(error_with({"trainer.super_batch=60"}) ==
        "trainer.super_batch: 60 is not a multiple of generation.answers 8, so groups of answers would be cut; use a "
        "multiple");
  CHECK(error_with({R"(model.decoder.vocab_size=5)"}) ==
        "model.decoder: vocab_size: 5, but the tokenizer has 13 tokens");
  CHECK(error_with({R"(model.decoder.max_position_embeddings=9)"}) ==
        "model.decoder: max_position_embeddings: 9, but a prompt and an answer may have 19 tokens together");
  CHECK(error_with({R"(model.decoder.hidden_size=0)"}).starts_with("model.decoder: hidden_size: 0, expected"));
  CHECK(error_with({"task.name=revers"}).find("reverse") != std::string::npos);
  CHECK(
      error_with({"tokenizer.alphabet=ab"}).starts_with("tokenizer.alphabet: lacks a character of the task reverse: "));
}

TEST_CASE("token_rules: a replay buffer that cannot hold a super-batch is refused") {
  CHECK(error_with({"replay.capacity=63", "replay.max_policy_lag=0"}) ==
        "replay.capacity: 63 is less than the 64 samples of trainer.super_batch 64 x (replay.max_policy_lag 0 + 1); "
        "use at least 64, or 0");
  CHECK(error_with({"replay.capacity=127"}).starts_with("replay.capacity: 127 is less than the 128 samples of "));
  CHECK(error_with({"replay.capacity=128"}).empty());
  CHECK(
      error_with({"replay.mode=reuse", "replay.capacity=63"}).starts_with("replay.capacity: 63 is less than the 64 "));
  CHECK(error_with({"replay.mode=reuse", "replay.max_policy_lag=0"}).starts_with("replay.max_policy_lag: 0 lets no "));
}
