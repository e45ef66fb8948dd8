#include "tests/actors/config/config_cases.h"

namespace troupe::test {
namespace {

constexpr auto kRefused = InSchema::refused;
constexpr auto kAccepted = InSchema::accepted;
constexpr auto kNoJson = InSchema::no_json;

const char* const kTopKeys =
    "name, seed, deterministic, env, workers, rollout, inference, replay, model, algorithm, trainer, stop, evaluation, "
    "checkpoint, stats, network, task, tokenizer, generation, warmup, reference, reward_model, scorers";

std::string nested(int levels) {
  std::string text = R"({"env": {"params": )";
  for (int i = 0; i < levels; ++i) text += R"({"a": )";
  return text + "1" + std::string(static_cast<size_t>(levels) + 2, '}');
}

// A file with `count` keys and a duplicate of the first.
std::string many_keys(int count) {
  std::string text = R"({"env": {"params": {)";
  for (int i = 0; i < count; ++i) text += "\"k" + std::to_string(i) + "\": 0,";
  return text + "\"k0\": 0}}}";
}

std::vector<BadFile> syntax() {
  return {
      {"empty file", "", ": is empty, expected a JSON value", kNoJson},
      {"blank file", " \n\t\r\n", ": is empty, expected a JSON value", kNoJson},
      {"only a byte order mark", "\xEF\xBB\xBF", ": is empty, expected a JSON value", kNoJson},
      {"two byte order marks", "\xEF\xBB\xBF\xEF\xBB\xBF{}", ":1:1: not valid JSON: a second byte order mark", kNoJson},
      {"cut off", R"({"seed": 1, "env": {)", ":1:21: not valid JSON: unexpected end of input; expected string literal",
       kNoJson},
      {"trailing comma", "{\n  \"seed\": 1,\n}", ":3:1: not valid JSON: a comma before }, remove it", kNoJson},
      {"trailing comma and a comment", "{\n  \"seed\": 1,  // one\n}",
       ":3:1: not valid JSON: a comma before }, remove it", kNoJson},
      {"trailing comma in a section", R"({"env": {"rows": 8, }})", ":1:21: not valid JSON: a comma before }, remove it",
       kNoJson},
      {"trailing comma in a list", R"({"model": {"hidden": [64, ]}})",
       ":1:27: not valid JSON: a comma before ], remove it", kNoJson},
      {"missing value", R"({"seed": 1, "name": })",
       ":1:21: not valid JSON: unexpected '}'; expected '[', '{', or a literal", kNoJson},
      {"missing value in a list", R"({"model": {"hidden": [64, "a": ]}})",
       ":1:30: not valid JSON: unexpected ':'; expected ']'", kNoJson},
      {"trailing garbage", "{} {}", ":1:4: not valid JSON: unexpected '{'; expected end of input", kNoJson},
      {"comment without an end", "{\n  /* fast\n}", ":3:2: not valid JSON: invalid comment; missing closing '*/'",
       kNoJson},
      {"half a comment", "{\n  / fast\n}", ":2:4: not valid JSON: invalid comment; expecting '/' or '*' after '/'",
       kNoJson},
      {"hash comment", "# fast\n{}", ":1:1: not valid JSON: comments begin with //, not with #", kNoJson},
      {"NaN", R"({"algorithm": {"gamma": NaN}})", ":1:25: not valid JSON: JSON has no NaN and no Infinity", kNoJson},
      {"infinity", R"({"stop": {"seconds": -Infinity}})", ":1:23: not valid JSON: JSON has no NaN and no Infinity",
       kNoJson},
      {"overflowing number", R"({"stop": {"seconds": 1e999}})",
       ":1:26: not valid JSON: number overflow parsing '1e999'", kNoJson},
      {"single quotes", "{'seed': 1}", ":1:2: not valid JSON: JSON strings are in double quotes", kNoJson},
      {"Python spelling", R"({"deterministic": True})",
       ":1:19: not valid JSON: JSON spells true, false and null in small letters", kNoJson},
      {"number that begins with a point", R"({"trainer": {"policy_lr": .001}})", ":1:27: not valid JSON: write 0.001",
       kNoJson},
      {"negative number that begins with a point", R"({"algorithm": {"entropy_coef_end": -.5e-1}})",
       ":1:37: not valid JSON: write -0.5e-1", kNoJson},
      {"YAML", "# fast\nseed: 3\n",
       ":1:1: not valid JSON: comments begin with //, not with #; config files are JSON, or YAML when the name ends in "
       ".yaml or .yml",
       kNoJson},
      {"YAML with a section", "env:\n  id: CartPole-v1\n",
       ":1:1: not valid JSON: invalid literal; config files are JSON, or YAML when the name ends in .yaml or .yml",
       kNoJson},
      {"leading zero", R"({"seed": 01})", ":1:11: not valid JSON: unexpected number literal; expected '}'", kNoJson},
      {"raw line break in a string", "{\"name\": \"a\nb\"}",
       ":1:12: not valid JSON: invalid string: control character U+000A (LF) must be escaped to \\u000A or \\n",
       kNoJson},
      {"broken UTF-8", "{\"name\": \"a\xff\"}", ":1:12: not valid JSON: invalid string: ill-formed UTF-8 byte",
       kNoJson},
      {"zero byte", std::string("{}\0", 3), ":1:3: not valid JSON: a zero byte", kNoJson},
  };
}

std::vector<BadFile> structure() {
  return {
      {"array at the top", "[]", ": [] is an array, expected an object", kRefused},
      {"null at the top", "null", ": null is not a value, expected an object", kRefused},
      {"duplicate field", R"({"trainer": {"epochs": 4, "epochs": 8}})", ": trainer.epochs: the key is there twice",
       kNoJson},
      {"duplicate section", R"({"stop": {}, "seed": 1, "stop": {}})", ": stop: the key is there twice", kNoJson},
      {"duplicate in env.params", R"({"env": {"params": {"a": 1, "a": 2}}})", ": env.params.a: the key is there twice",
       kNoJson},
      {"deep nesting", nested(31), ": nested deeper than 32 levels", kAccepted},
      {"very deep nesting", nested(100'000), ": nested deeper than 32 levels", kNoJson},
      {"duplicate after very many keys", many_keys(50'000), ": env.params.k0: the key is there twice", kNoJson},
      {"above 1 MiB", std::string((1 << 20) + 1, ' '), ": is larger than 1 MiB, expected a config file", kNoJson},
      {"section that is no object", R"({"rollout": 32})", ": rollout: 32 is a number, expected an object with: length",
       kRefused},
      {"section that is null", R"({"stop": null})", ": stop: is empty; remove it or give it keys", kRefused},
      {"dotted key", R"({"algorithm.gamma": 1})",
       R"(: algorithm.gamma: sections are nested, write "algorithm": {"gamma": ...})", kRefused},
      {"misspelt key", R"({"algorithm": {"gama": 1}})", ": algorithm.gama: unknown key, did you mean algorithm.gamma?",
       kRefused},
      {"swapped letters", R"({"trainer": {"epcohs": 1}})",
       ": trainer.epcohs: unknown key, did you mean trainer.epochs?", kRefused},
      {"misspelt section", R"({"algoritm": {"gamma": 1}})", ": algoritm: unknown key, did you mean algorithm?",
       kRefused},
      {"key of another section", R"({"trainer": {"gamma": 1}})",
       ": trainer.gamma: unknown key, did you mean algorithm.gamma?", kRefused},
      {"key outside its section", R"({"gamma": 1})", ": gamma: unknown key, did you mean algorithm.gamma?", kRefused},
      {"another library's name", R"({"learning_rate": 1})",
       ": learning_rate: unknown key, did you mean trainer.policy_lr and trainer.value_lr?", kRefused},
      {"duration without its unit", R"({"inference": {"timeout": 5}})",
       ": inference.timeout: unknown key, did you mean inference.timeout_us?", kRefused},
      {"common name of a clip bound", R"({"algorithm": {"clip": 0.1}})",
       ": algorithm.clip: unknown key, did you mean algorithm.surrogate_params.clip?", kRefused},
      {"key near nothing", R"({"replay": {"foo": 1}})",
       ": replay.foo: unknown key, replay has: mode, draw, capacity, max_policy_lag, max_reuse, late, filter_groups",
       kRefused},
      {"section near nothing", R"({"xyzzy": {}})", std::string(": xyzzy: unknown key, there are: ") + kTopKeys,
       kRefused},
      {"empty key", R"({"": 1})", std::string(": : unknown key, there are: ") + kTopKeys, kRefused},
      {"line break in a key", R"({"a\nb": 1})", std::string(": a\\x0ab: unknown key, there are: ") + kTopKeys,
       kRefused},
  };
}

std::vector<BadFile> values() {
  return {
      {"number as text", R"({"algorithm": {"gamma": "0.9"}})",
       R"(: algorithm.gamma: "0.9" is a string, expected a number in [0, 1])", kRefused},
      {"null", R"({"algorithm": {"gamma": null}})",
       ": algorithm.gamma: null is not a value, expected a number in [0, 1]", kRefused},
      {"above the interval", R"({"algorithm": {"gamma": 1.5}})",
       ": algorithm.gamma: 1.5 is out of range, expected a number in [0, 1]", kRefused},
      {"below the interval", R"({"algorithm": {"lambda": -1e-9}})",
       ": algorithm.lambda: -1e-09 is out of range, expected a number in [0, 1]", kRefused},
      {"at an open lower end", R"({"env": {"reward_scale": 0}})",
       ": env.reward_scale: 0 is out of range, expected a number in (0, 1000000000]", kRefused},
      {"above the upper end", R"({"trainer": {"adam_beta2": 1}})",
       ": trainer.adam_beta2: 1 is out of range, expected a number in [0, 0.9999999]", kRefused},
      {"fraction as integer", R"({"trainer": {"epochs": 1.5}})",
       ": trainer.epochs: 1.5 is not whole, expected an integer in [1, 1000]", kRefused},
      {"zero where one is least", R"({"env": {"rows": 0}})",
       ": env.rows: 0 is out of range, expected an integer in [1, 65536]", kRefused},
      {"above 32 bits", R"({"trainer": {"epochs": 5000000000}})",
       ": trainer.epochs: 5000000000 is out of range, expected an integer in [1, 1000]", kRefused},
      {"above 64 bits", R"({"trainer": {"epochs": 1e30}})",
       ": trainer.epochs: 1e+30 is out of range, expected an integer in [1, 1000]", kRefused},
      {"negative seed", R"({"seed": -1})",
       ": seed: -1 is out of range, expected an integer in [0, 18446744073709551615]", kRefused},
      {"seed of 2^64", R"({"seed": 18446744073709551616})",
       ": seed: 1.8446744073709552e+19 is out of range, expected an integer in [0, 18446744073709551615]", kRefused},
      {"boolean as number", R"({"deterministic": 1})", ": deterministic: 1 is a number, expected true or false",
       kRefused},
      {"boolean as text", R"({"deterministic": "yes"})",
       R"(: deterministic: "yes" is a string, expected true or false; YAML 1.2 has only true and false)", kRefused},
      {"number as boolean", R"({"seed": true})",
       ": seed: true is a boolean, expected an integer in [0, 18446744073709551615]", kRefused},
      {"unknown choice", R"({"replay": {"mode": "fifo"}})",
       R"(: replay.mode: "fifo" is unknown, expected one of: consume_once, reuse)", kRefused},
      {"choice in other letters", R"({"algorithm": {"value_loss": "L2"}})",
       R"(: algorithm.value_loss: "L2" is unknown, expected one of: l2, huber)", kRefused},
      {"unknown whitening", R"({"algorithm": {"whitening": "non"}})",
       R"(: algorithm.whitening: "non" is unknown, expected one of: auto, none, accerl, verl, slime, openrlhf, )"
       "lm_human_preferences",
       kRefused},
      {"name of a table with a blank", R"({"algorithm": {"advantage": "g ae"}})",
       R"(: algorithm.advantage: "g ae" is not allowed, expected a name like gae)", kRefused},
      {"choice of a wrong type", R"({"replay": {"mode": 1}})",
       ": replay.mode: 1 is a number, expected one of: consume_once, reuse", kRefused},
      {"unknown device", R"({"trainer": {"device": "gpu"}})",
       R"(: trainer.device: "gpu" is not allowed, expected cpu, cuda or cuda:N)", kRefused},
      {"empty environment", R"({"env": {"id": ""}})",
       R"(: env.id: "" is not allowed, expected an environment id like CartPole-v1, of at most 1000 bytes)", kRefused},
      {"name that is a path", R"({"name": "../x"})",
       R"(: name: "../x" is not allowed, expected up to 255 bytes without / and control characters, and not . or ..)",
       kRefused},
      {"name that is a folder", R"({"name": ".."})",
       R"(: name: ".." is not allowed, expected up to 255 bytes without / and control characters, and not . or ..)",
       kRefused},
      {"name of two lines", R"({"name": "a\nb"})",
       R"(: name: "a\nb" is not allowed (it has the control character \x0a), expected up to 255 bytes without / and )"
       "control characters, and not . or ..",
       kRefused},
      {"environment with a tab", R"({"env": {"id": "py:a\tb.py:Make"}})",
       R"(: env.id: "py:a\tb.py:Make" is not allowed (it has the control character \x09), expected an environment id )"
       "like CartPole-v1, of at most 1000 bytes",
       kRefused},
      {"duration in text", R"({"network": {"heartbeat_ms": "1s"}})",
       R"(: network.heartbeat_ms: "1s" is a string, expected whole milliseconds in [10, 600000])", kRefused},
      {"negative duration", R"({"inference": {"timeout_us": -1}})",
       ": inference.timeout_us: -1 is out of range, expected whole microseconds in [0, 10000000]", kRefused},
      {"layer as a number", R"({"model": {"hidden": 64}})",
       ": model.hidden: 64 is a number, expected an array of at most 32 integers in [1, 65536]", kRefused},
      {"layer without units", R"({"model": {"hidden": [64, 0]}})",
       ": model.hidden[1]: 0 is out of range, expected an integer in [1, 65536]", kRefused},
      {"fraction of a layer", R"({"model": {"hidden": [6.5]}})",
       ": model.hidden[0]: 6.5 is not whole, expected an integer in [1, 65536]", kRefused},
      {"33 layers", R"({"model": {"hidden": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}})",
       ": model.hidden: 33 items, expected an array of at most 32 integers in [1, 65536]", kRefused},
      {"parameters as an array", R"({"env": {"params": [1]}})", ": env.params: [1] is an array, expected an object",
       kRefused},
      {"parameters as text", R"({"env": {"params": "{}"}})", R"(: env.params: "{}" is a string, expected an object)",
       kRefused},
      {"very long value", R"({"name": ")" + std::string(5000, 'x') + R"("})",
       ": name: \"" + std::string(59, 'x') +
           "... is too long, expected up to 255 bytes without / and control characters, and not . or ..",
       kRefused},
  };
}

}  // namespace

const std::vector<BadFile>& bad_files() {
  static const std::vector<BadFile> all = [] {
    std::vector<BadFile> cases = syntax();
    for (auto part : {structure(), values()}) cases.insert(cases.end(), part.begin(), part.end());
    return cases;
  }();
  return all;
}

}  // namespace troupe::test
