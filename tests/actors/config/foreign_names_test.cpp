#include "actors/config/config.h"

#include "actors/config/foreign_names.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/config/fields.h"
#include "tests/actors/config/config_errors.h"
#include "tests/support/config_error.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("names: no name that another library uses for a setting is a key of troupe") {
  RunConfig config;
  const Fields fields = describe(config);
  size_t names = 0;
  for (const Field& field : fields)
    for (const std::string_view name : field.setting.elsewhere) {
      CAPTURE(name);
      for (const Field& other : fields) CHECK(other.key() != name);
      ++names;
    }
  CHECK(names == 107);
}

TEST_CASE("names: the error about a name from another library suggests the setting, in config files and --set") {
  const std::string minibatches = "the size of a minibatch is trainer.super_batch / trainer.minibatches";
  const auto mean = [](const std::string& path) { return "did you mean " + path + '?'; };
  const std::pair<std::string, std::string> cases[] = {
      {"trainer.batch_size", minibatches},
      {"batch_size", minibatches},
      {"replay.minibatch_size", minibatches},
      {"sgd_minibatch_size", minibatches},
      {"device", mean("trainer.device")},
      {"cuda", mean("trainer.device")},
      {"env.name", mean("env.id")},
      {"reward_funcs", mean("task.verifier")},
      {"partial_rollout", mean("generation.on_new_weights")},
      {"max_assistant_turns", mean("task.turns")},
      {"tools", mean("task.reply")},
      {"use_pf_ppo", mean("algorithm.policy_filtration")},
      {"algorithm.weight_pow", mean("algorithm.policy_filtration_power")},
      {"env.kwargs", mean("env.params")},
      {"algorithm.name", mean("algorithm.surrogate and algorithm.advantage")},
      {"algo", mean("algorithm.surrogate and algorithm.advantage")},
      {"algorithm.clip_vloss", mean("algorithm.value_clip")},
      {"clip_range_vf", mean("algorithm.value_clip")},
      {"algorithm.clip_coef", mean("algorithm.surrogate_params.clip")},
      {"clip_eps", mean("algorithm.surrogate_params.clip")},
      {"norm_adv", mean("algorithm.normalize_advantages")},
      {"model.log_std_init", mean("model.log_std_start")},
      {"evaluation.interval", mean("evaluation.every_updates")},
      {"eval_freq", mean("evaluation.every_updates")},
      {"n_eval_episodes", mean("evaluation.episodes")},
      {"checkpoint.interval", mean("checkpoint.every_updates")},
      {"save_freq", mean("checkpoint.every_updates")},
      {"policy", mean("model.net.core.kind")},
      {"model.use_lstm", mean("model.net.core.kind")},
      {"model.core", mean("model.net.core")},
      {"core", mean("model.net.core")},
      {"lstm_hidden_size", mean("model.net.core.size")},
      {"lstm_cell_size", mean("model.net.core.size")},
      {"max_seq_len", mean("model.sequence")},
      {"net_arch", mean("model.hidden")},
      {"fcnet_hiddens", mean("model.hidden")},
      {"vf_share_layers", mean("model.shared_trunk")},
      {"model.type", mean("model.kind")},
      {"model.encoders", mean("model.net.encoders")},
      {"model.trunk", mean("model.net.trunk")},
      {"env.n_envs", mean("env.rows")},
      {"num_envs", mean("env.rows")},
      {"num_sgd_iter", mean("trainer.epochs")},
      {"n_epochs", mean("trainer.epochs")},
      {"train_batch_size", mean("trainer.super_batch")},
      {"num_env_runners", mean("workers.count")},
      {"num_workers", mean("workers.count")},
      {"exp_name", mean("name")},
      {"torch_deterministic", mean("deterministic")},
      {"evaluation.deterministic", "there is no such setting: evaluations always take the most likely actions"},
      {"evaluation.seed",
       "there is no such setting: evaluations follow seed; `troupe eval RUN --seed N` evaluates with another one"},
  };
  for (const auto& [path, advice] : cases) {
    CAPTURE(path);
    const std::string error = path + ": unknown key, " + advice;
    RunConfig config;
    CHECK(config_error_of([&, wrong = path] { apply_override(config, wrong + "=1"); }) == "--set: " + error);
    const size_t dot = path.find('.');
    const std::string text = dot == std::string::npos
                                 ? "{\"" + path + "\": 1}"
                                 : "{\"" + path.substr(0, dot) + "\": {\"" + path.substr(dot + 1) + "\": 1}}";
    CHECK(parse_error(text) == "run.json: " + error);
  }
}

TEST_CASE("names: if model.kind is the name of a network part, the error says where that part is set") {
  const std::string convolutions =
      "expected \"net\", which reads images with convolutions; model.net.encoders describes them";
  const std::pair<std::string, std::string> cases[] = {
      {"lstm", R"(expected "net", with {"core": {"kind": "lstm"}} in model.net)"},
      {"gru", R"(expected "net", with {"core": {"kind": "gru"}} in model.net)"},
      {"cnn", convolutions},
      {"conv", convolutions},
      {"nature", R"(expected "net", with {"encoders": {"*": {"kind": "nature"}}} in model.net)"},
      {"rnn", "expected one of: mlp, net, token_transformer, decoder"},
  };
  for (const auto& [kind, advice] : cases) {
    const std::string error = ": model.kind: \"" + kind + "\" is unknown, " + advice;
    CHECK(parse_error(R"({"model": {"kind": ")" + kind + "\"}}") == "run.json" + error);
    RunConfig config;
    CHECK(config_error_of([&, given = kind] { apply_override(config, "model.kind=" + given); }) == "--set" + error);
  }
}

TEST_CASE("names: a path into an object with a wrong name gets a suggestion of the right path") {
  const std::pair<std::string, std::string> cases[] = {
      {"env.kwargs.velocities", "env.params.velocities"},
      {"env.parms.velocities", "env.params.velocities"},
      {"core.kind", "model.net.core.kind"},
      {"net.core.kind", "model.net.core.kind"},
      {"model.core.size", "model.net.core.size"},
      {"model.encoders.image.kind", "model.net.encoders.image.kind"},
      {"algorithm.surogate_params.tau", "algorithm.surrogate_params.tau"},
  };
  for (const auto& [wrong, right] : cases) {
    RunConfig config;
    CHECK(config_error_of([&, path = wrong] { apply_override(config, path + "=1"); }) ==
          "--set: " + wrong + ": unknown key, did you mean " + right + '?');
  }
}

TEST_CASE("names: no hint is about the name of a setting, and the path that it suggests exists") {
  RunConfig config;
  const Fields fields = describe(config);
  for (const Hint& hint : foreign_names()) {
    CAPTURE(hint.name);
    CHECK(find_field(fields, hint.name) == nullptr);
    CHECK(hint.path.empty() != hint.advice.empty());
    const std::string_view changed = hint.name.substr(0, hint.name.find('='));
    if (changed != hint.name) CHECK(find_field(fields, changed) != nullptr);
    if (hint.path.empty()) continue;
    const bool inside = hint.path.starts_with("model.net.") || hint.path.starts_with("algorithm.surrogate_params.") ||
                        hint.path.starts_with("algorithm.rollout_correction.");
    CHECK((inside || find_field(fields, hint.path) != nullptr));
  }
}

TEST_CASE("names: similar spelling does not suggest a setting of another section") {
  RunConfig config;
  const Fields fields = describe(config);
  const auto advice = [&](const std::string& path) {
    return unknown_key(fields, path, foreign_names()).substr(path.size() + std::string(": unknown key, ").size());
  };
  CHECK(advice("replay.epoch") == "replay has: mode, draw, capacity, max_policy_lag, max_reuse, late, filter_groups");
  CHECK(advice("stop.gama") == "stop has: env_steps, updates, seconds, eval_return, after_warmup, on_collapse");
  CHECK(advice("env.xyzzy.size").starts_with("env has: id, params, rows"));
  CHECK(advice("rollout.rows") == "rollout has: length");  // although there are env.rows and evaluation.rows
  CHECK(advice("rows") == "did you mean env.rows or evaluation.rows?");
  CHECK(advice("trainr.epcohs") == "did you mean trainer.epochs?");
}

TEST_CASE("names: for every field a key with a missing letter gets the right suggestion") {
  RunConfig config;
  const Fields fields = describe(config);
  for (const Field& field : fields) {
    if (field.key().size() < 4) continue;
    std::string wrong(field.path);
    wrong.erase(wrong.size() - 2, 1);
    CHECK(unknown_key(fields, wrong) == wrong + ": unknown key, did you mean " + field.path + '?');
  }
}
