// Token runs that begin with given weights (troupe train --init-from), whose source means something else by them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/train_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

namespace fs = std::filesystem;

const Words kOneUpdate = set({"stop.updates=1"});

Words from(const std::string& source) { return {"--init-from", source}; }

// A run of one update, its export, and a copy of its checkpoint that is in no run.
struct Source {
  explicit Source(const Words& more = {}) {
    const CommandLine trained(token_train_line(folder.path(), kOneUpdate + more));
    REQUIRE_MESSAGE(trained.exit_code == 0, trained.err);
    REQUIRE(CommandLine({"troupe", "export", run, "--hf", exported}).exit_code == 0);
    fs::copy(checkpoint_folder(run, 1), copied);
  }
  Words all() const {
    return {run,      checkpoint_folder(run, 1),      checkpoint_folder(run, 1) + "/model.safetensors", copied,
            exported, exported + "/model.safetensors"};
  }

  TempFolder folder;
  std::string run = folder / "run", exported = folder / "exported", copied = folder / "copied";
};

const Source& source() {
  static const Source trained;
  return trained;
}

// Checks that a new run ends with exit code 2 and one line, which is returned, and makes no run folder.
std::string refusal(const Words& more) {
  const TempFolder folder;
  const CommandLine refused(token_train_line(folder.path(), kOneUpdate + more));
  CHECK(refused.exit_code == 2);
  CHECK_MESSAGE(std::ranges::count(refused.err, '\n') == 1, refused.err);
  CHECK_FALSE(fs::exists(folder / "run"));
  return refused.err;
}

// The standard error of a new run, which must end well.
std::string accepted(const Words& more) {
  const TempFolder folder;
  const CommandLine begun(token_train_line(folder.path(), kOneUpdate + more));
  CHECK_MESSAGE(begun.exit_code == 0, begun.err);
  return begun.err;
}

// Replaces the value of a key in the config.json of a folder.
void change_config(const std::string& folder, const std::string& key, const Json& value) {
  Json config = json_of(folder + "/config.json");
  config[key] = value;
  std::ofstream(folder + "/config.json") << config.dump();
}

Words adapters(const std::string& base, const std::string& lora = R"({"rank": 2, "alpha": 4})") {
  return set({"model.path=" + base, "model.lora=" + lora, "model.decoder={}"});
}

}  // namespace

TEST_CASE("init-from: a language model whose numbers outside of its tensors differ is refused with both values") {
  const Words changed = set({"model.decoder.rope_theta=500", "model.decoder.rms_norm_eps=1e-3"});
  for (const std::string& given : source().all()) {
    CAPTURE(given);
    const std::string error = refusal(changed + from(given));
    CHECK(has(error, "troupe: --init-from: " + given.substr(0, given.find("/model.safetensors"))));
    CHECK_MESSAGE(has(error,
                      ": has the weights of another model: rms_norm_eps 1e-06 instead of 0.001, rope_theta "
                      "10000.0 instead of 500.0; give this run the model.decoder of its source\n"),
                  error);
  }
  const Words other_heads = set({"model.decoder.num_attention_heads=4", "model.decoder.num_key_value_heads=4"});
  CHECK(has(refusal(other_heads + from(source().run)),
            "num_attention_heads 2 instead of 4, num_key_value_heads 2 instead of 4, head_dim 16 instead of 8"));
  const std::string scaling = R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                  "high_freq_factor": 4.0, "original_max_position_embeddings": 64})";
  CHECK(has(refusal(set({"model.decoder.rope_scaling=" + scaling}) + from(source().exported)),
            "another model: rope_scaling null instead of {\"rope_type\":\"llama3\",\"factor\":8.0,"));
}

TEST_CASE("init-from: a language model with another tokenizer is refused with both values") {
  const Words changed = set({"tokenizer.alphabet=9876543210>"});
  for (const std::string& given : source().all()) {
    CAPTURE(given);
    const std::string error = refusal(changed + from(given));
    CHECK_MESSAGE(has(error, ": was trained with another tokenizer: "), error);
    CHECK(has(error, "; give this run the tokenizer of its source\n"));
    if (given.starts_with(source().exported))
      CHECK_MESSAGE(has(error, "/tokenizer.json has 13 tokens (hash "), error);
    else
      CHECK_MESSAGE(has(error,
                        "tokenizer.alphabet was 0123456789> and is now 9876543210>; the first difference is "
                        "character 0, "),
                    error);
  }
}

TEST_CASE("init-from: what a language model does not depend on may differ") {
  const Words more = set({"seed=7", "task.params.digits=3", "tokenizer.alphabet=0123456789>",
                          "generation.temperature=2", "model.decoder.rope_theta=1e4", "algorithm.advantage=rloo"});
  for (const std::string& given : source().all()) {
    CAPTURE(given);
    CHECK_FALSE(has(accepted(more + from(given)), "not compared"));
  }
}

TEST_CASE("init-from: weights that do not say what they mean are used with a warning") {
  const TempFolder folder;
  const std::string file = folder / "mine.safetensors", model = folder / "model";
  fs::copy(source().exported + "/model.safetensors", file);
  CHECK(has(accepted(from(file)),
            "mine.safetensors: does not say with which rope_theta, rms_norm_eps and "
            "tokenizer it was trained; they are not compared"));
  fs::copy(source().exported, model);
  fs::remove(model + "/tokenizer.json");
  CHECK(
      has(accepted(from(model)), model + ": does not say with which tokenizer it was trained; they are not compared"));
}

TEST_CASE("init-from: adapters with another alpha, or of other weights than in model.path, are refused with both") {
  const std::string base = source().exported;
  const Source trained(adapters(base));
  const Words sources = {trained.run, trained.copied, trained.exported};
  for (const std::string& given : sources) {
    CAPTURE(given);
    CHECK_FALSE(has(accepted(adapters(base) + from(given)), "not compared"));
    const std::string scaled = refusal(adapters(base, R"({"rank": 2, "alpha": 8})") + from(given));
    CHECK_MESSAGE((has(scaled, "has adapters with the alpha 4.0, model.lora has 8.0; give this run the ") ||
                   has(scaled, "lora_alpha is 4.0, expected 8.0, the alpha of model.lora")),
                  scaled);
  }
  const Source other(set({"seed=2"}));
  const std::string base_hash = json_of(trained.run + "/made_of.json").at("model.base");
  for (const std::string& given : sources) {
    const std::string error = refusal(adapters(other.exported) + from(given));
    CHECK_MESSAGE(has(error, "has adapters of weights with the hash " + base_hash + ", those in model.path have "),
                  error);
    CHECK(has(error, "; give this run the model.path of its source\n"));
  }
  const TempFolder folder;
  const std::string changed = folder / "changed";
  fs::copy(base, changed);
  change_config(changed, "rope_theta", 500.0);
  for (const std::string& given : sources)
    CHECK(has(refusal(adapters(changed) + from(given)),
              "another model: rope_theta 10000.0 instead of 500.0; give this run the model.path and model.decoder of"));
}

TEST_CASE("init-from: model.path and model.critic_path with another tokenizer of characters are refused too") {
  const Words changed = set({"tokenizer.alphabet=9876543210>"}),
              path = set({"model.path=" + source().exported, "model.decoder={}"});
  const Words critic =
      set({"model.critic=separate", "algorithm.advantage=gae", "model.critic_path=" + source().exported});
  CHECK_FALSE(has(accepted(path + critic), "not compared"));
  for (const auto& [setting, words] :
       {std::pair<std::string, Words>{"model.path", path}, {"model.critic_path", critic}}) {
    const std::string error = refusal(words + changed);
    CHECK_MESSAGE(has(error, setting + ": " + source().exported + "/tokenizer.json has 13 tokens (hash "), error);
    CHECK(has(error, "); the model needs its own tokenizer\n"));
  }
}

TEST_CASE("init-from: a run that was killed before its first update does not go on with other numbers or tokens") {
  const TempFolder folder;
  REQUIRE(CommandLine(token_train_line(folder.path(), kOneUpdate + from(source().run))).exit_code == 0);
  const std::string run = folder / "run";
  fs::remove_all(run + "/checkpoints");
  for (const char* file : {"summary.json", "metrics.jsonl"}) fs::remove(run + '/' + file);
  const auto again = [&](const Words& more) {
    const CommandLine line(token_train_line(folder.path(), kOneUpdate + more));
    CHECK(line.exit_code == 2);
    return line.err;
  };
  const std::string instead = "; use another run folder, or remove this file and init.json to begin with new weights";
  CHECK(has(again(set({"model.decoder.rope_theta=500"})),
            run + "/init.safetensors: has the weights of another model: rope_theta 10000.0 instead of 500.0"));
  const std::string tokens = again(set({"tokenizer.alphabet=9876543210>"}));
  CHECK_MESSAGE(has(tokens, run + "/init.safetensors: was trained with another tokenizer: "), tokens);
  CHECK(has(tokens, instead));
  CHECK(CommandLine(token_train_line(folder.path(), kOneUpdate)).exit_code == 0);
}
