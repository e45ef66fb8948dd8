#include "models/networks/net_layout.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "actors/config/config.h"
#include "models/learning/recurrence.h"
#include "models/networks/encoder_table.h"
#include "models/weights/model_weights.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

EnvSpec spec_of(std::vector<ArraySpec> observations) {
  EnvSpec spec;
  spec.id = "Made-up";
  spec.observations = std::move(observations);
  spec.action.bins = {2};
  return spec;
}

const ArraySpec kImage = {"image", DType::u8, {9, 9, 3}};
const ArraySpec kNumbers = {"state", DType::f32, {2, 2}};
const ArraySpec kTokens = {"tokens", DType::i64, {3}};

ModelConfig net_of(const std::string& json) {
  ModelConfig config;
  config.kind = "net";
  config.net = json;
  return config;
}

std::map<std::string, std::string> shapes_of(const std::string& json, const EnvSpec& spec) {
  std::map<std::string, std::string> result;
  for (const NetworkTensor& tensor : network_layout(net_of(json), spec).tensors)
    CHECK(result.emplace(tensor.name, tensor.shape.text()).second);
  return result;
}

std::string mistake_in(const ModelConfig& config, const EnvSpec& spec = spec_of({kImage, kNumbers, kTokens})) {
  try {
    network_layout(config, spec);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("net_layout: by default images get convolutions and other observations an mlp") {
  const auto shapes = shapes_of("{}", spec_of({kImage, kNumbers, kTokens}));
  const std::map<std::string, std::string> wanted = {
      {"encoder.image.0.bias", "[32]"},  {"encoder.image.0.weight", "[32, 3, 3, 3]"},
      {"encoder.image.1.bias", "[32]"},  {"encoder.image.1.weight", "[32, 32, 3, 3]"},
      {"encoder.image.2.bias", "[128]"}, {"encoder.image.2.weight", "[128, 288]"},
      {"encoder.state.0.bias", "[64]"},  {"encoder.state.0.weight", "[64, 4]"},
      {"encoder.tokens.0.bias", "[64]"}, {"encoder.tokens.0.weight", "[64, 3]"},
      {"trunk.0.bias", "[64]"},          {"trunk.0.weight", "[64, 256]"},
      {"policy.head.bias", "[2]"},       {"policy.head.weight", "[2, 64]"},
      {"value.head.bias", "[1]"},        {"value.head.weight", "[1, 64]"},
  };
  CHECK(shapes == wanted);
}

TEST_CASE("net_layout: an image of any size has a default encoder") {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{3, 1, 200}, Shape{64, 64, 3}, Shape{4, 84, 84}, Shape{2, 5, 4}}) {
    CAPTURE(shape.text());
    const auto shapes = shapes_of("{}", spec_of({{"image", DType::u8, shape}}));
    CHECK(shapes.contains("encoder.image.0.weight"));
  }
  CHECK(shapes_of("{}", spec_of({{"image", DType::u8, {84, 84, 4}}})).at("encoder.image.0.weight") == "[32, 4, 3, 3]");
  CHECK(shapes_of("{}", spec_of({{"image", DType::u8, {4, 84, 84}}})).at("encoder.image.0.weight") == "[32, 4, 3, 3]");
  CHECK(shapes_of(R"({"encoders": {"image": {"order": "chw"}}})", spec_of({{"image", DType::u8, {9, 9, 3}}}))
            .at("encoder.image.0.weight") == "[32, 9, 3, 3]");
}

TEST_CASE("net_layout: trunk, core and value trunk") {
  const EnvSpec spec = spec_of({kNumbers});
  auto shapes = shapes_of(R"({"trunk": [7, 5], "value_trunk": [3]})", spec);
  CHECK(shapes.at("trunk.1.weight") == "[5, 7]");
  CHECK(shapes.at("value.0.weight") == "[3, 64]");
  CHECK(shapes.at("value.head.weight") == "[1, 3]");
  CHECK(shapes.at("policy.head.weight") == "[2, 5]");
  shapes = shapes_of(R"({"trunk": [], "core": {"kind": "lstm", "size": 6}, "value_trunk": [3]})", spec);
  CHECK(shapes.at("core.weight_ih") == "[24, 64]");
  CHECK(shapes.at("core.weight_hh") == "[24, 6]");
  CHECK(shapes.at("core.bias_ih") == "[24]");
  CHECK(shapes.at("core.bias_hh") == "[24]");
  CHECK(shapes.at("value.0.weight") == "[3, 6]");
  CHECK(shapes_of(R"({"core": {"kind": "gru"}})", spec).at("core.weight_hh") == "[192, 64]");
  CHECK(network_layout(net_of(R"({"core": {"kind": "lstm", "size": 6}})"), spec).state_size == 12);
  CHECK(network_layout(net_of(R"({"core": {"kind": "gru", "size": 6}})"), spec).state_size == 6);
  CHECK(network_layout(net_of("{}"), spec).state_size == 0);
}

TEST_CASE("net_layout: initial weights are orthogonal, and the initial bias of an LSTM's forget gate is 1") {
  const WeightBlock weights =
      initial_weights(net_of(R"({"core": {"kind": "lstm", "size": 6}})"), spec_of({kNumbers}), 3);
  const auto recurrent = weights.floats("core.weight_hh");  // [24, 6]: orthonormal columns
  for (int64_t a = 0; a < 6; ++a) {
    for (int64_t b = 0; b < 6; ++b) {
      double product = 0;
      for (int64_t i = 0; i < 24; ++i) product += static_cast<double>(recurrent[i * 6 + a]) * recurrent[i * 6 + b];
      CHECK(product == doctest::Approx(a == b ? 1.0 : 0.0).epsilon(1e-6));
    }
  }
  const auto inputs = weights.floats("core.bias_ih"), states = weights.floats("core.bias_hh");
  for (size_t i = 0; i < 24; ++i) {
    CHECK(inputs[i] == (i >= 6 && i < 12 ? 1.0f : 0.0f));
    CHECK(states[i] == 0.0f);
  }
  const WeightBlock embedding = initial_weights(
      net_of(R"({"encoders": {"tokens": {"kind": "embedding", "values": 40, "size": 8}}})"), spec_of({kTokens}), 3);
  double squares = 0;
  for (const float x : embedding.floats("encoder.tokens.0.weight")) squares += static_cast<double>(x) * x;
  CHECK(squares / 320 == doctest::Approx(1.0));
}

TEST_CASE("net_layout: the error about a mistake has its path") {
  std::string kinds;
  for (const std::string_view name : encoder_names()) kinds += (kinds.empty() ? "" : ", ") + std::string(name);
  const std::pair<const char*, std::string> cases[] = {
      {R"([])", "model.net: [] is an array, expected an object"},
      {R"({"trunks": [3]})", "model.net.trunks: unknown key, did you mean model.net.trunk?"},
      {R"({"xyzzy": [3]})", "model.net.xyzzy: unknown key, model.net has: encoders, trunk, core, value_trunk"},
      {R"({"trunk": 64})", "model.net.trunk: 64 is a number, expected an array of at most 32 integers in [1, 65536]"},
      {R"({"trunk": [64, 0]})", "model.net.trunk[1]: 0 is out of range, expected an integer in [1, 65536]"},
      {R"({"trunk": [6.5]})", "model.net.trunk[0]: 6.5 is not whole, expected an integer in [1, 65536]"},
      {R"({"value_trunk": ["64"]})", "model.net.value_trunk[0]: \"64\" is a string, expected an integer in [1, 65536]"},
      {R"({"core": "lstm"})",
       "model.net.core: \"lstm\" is a string, expected an object like {\"kind\": \"lstm\", \"size\": 64}"},
      {R"({"encoders": "conv"})",
       "model.net.encoders: \"conv\" is a string, expected an object like {\"*\": {\"kind\": \"conv\"}}"},
      {R"({"encoders": {"image": "nature"}})",
       "model.net.encoders.image: \"nature\" is a string, expected an object like {\"kind\": \"conv\"}"},
      {R"({"encoders": {"*": 3}})",
       "model.net.encoders.*: 3 is a number, expected an object like {\"kind\": \"conv\"}"},
      {R"({"core": {"type": "lstm", "size": 64}})",
       "model.net.core.type: unknown key, did you mean model.net.core.kind?"},
      {R"({"core": {"kind": "lstm", "type": "lstm"}})",
       "model.net.core.type: unknown key, model.net.core has: kind, size"},
      {R"({"encoders": {"image": {"type": "mlp"}}})",
       "model.net.encoders.image.type: unknown key, did you mean model.net.encoders.image.kind?"},
      {R"({"core": {"kind": "lstn"}})", "model.net.core.kind: \"lstn\" is unknown, expected one of: none, lstm, gru"},
      {R"({"core": {"kind": "transformer"}})",
       "model.net.core.kind: \"transformer\" is unknown, expected one of: none, lstm, gru"},
      {R"({"core": {"kind": "lstm", "size": 1e9}})",
       "model.net.core.size: 1000000000.0 is out of range, expected an integer in [1, 65536]"},
      {R"({"core": {"size": 8}})",
       "model.net.core.kind: is missing, but model.net.core.size is given; use \"lstm\" or \"gru\""},
      {R"({"core": {"kind": "none", "size": 8}})",
       "model.net.core.size: has no effect with model.net.core.kind \"none\"; use \"lstm\" or \"gru\", or replace the "
       "whole object: --set 'model.net.core={\"kind\": \"none\"}'"},
      {R"({"core": {"kind": "gru", "siez": 8}})",
       "model.net.core.siez: unknown key, did you mean model.net.core.size?"},
      {R"({"encoders": {"imgae": {}}})",
       "model.net.encoders.imgae: Made-up gives no such observation, did you mean image?"},
      {R"({"encoders": {"depth_map": {}}})",
       "model.net.encoders.depth_map: Made-up gives no such observation, only: image, state, tokens"},
      {R"({"encoders": {"image": {"kind": "cnov"}}})",
       "model.net.encoders.image.kind: \"cnov\" is unknown, expected one of: " + kinds},
      {R"({"encoders": {"image": {"layer": []}}})",
       "model.net.encoders.image.layer: unknown key, did you mean model.net.encoders.image.layers?"},
      {R"({"encoders": {"state": {"layers": []}}})",
       "model.net.encoders.state.layers: has no effect with model.net.encoders.state.kind \"mlp\"; remove it, or "
       "replace the whole object: --set 'model.net.encoders.state={\"kind\": \"mlp\"}'"},
      {R"({"encoders": {"tokens": {"kind": "embedding", "values": 4, "hidden": [8]}}})",
       "model.net.encoders.tokens.hidden: has no effect with model.net.encoders.tokens.kind \"embedding\"; remove it, "
       "or replace the whole object: --set 'model.net.encoders.tokens={\"kind\": \"embedding\", \"values\": N}'"},
      {R"({"encoders": {"image": {"layers": [{"channels": 4, "kernel": 3}, {"channels": 4, "kernel": 9}]}}})",
       "model.net.encoders.image.layers[1].kernel: 9 is larger than its input of 7 x 7"},
      {R"({"encoders": {"image": {"layers": [{"channels": 4, "kernel": 12, "padding": 1}]}}})",
       "model.net.encoders.image.layers[0].kernel: 12 is larger than its input of 9 x 9 with padding 1"},
      {R"({"encoders": {"image": {"layers": [{"channels": 4}]}}})",
       "model.net.encoders.image.layers[0].kernel: is missing, expected an integer in [1, 1024]"},
      {R"({"encoders": {"image": {"layers": [{"channel": 4, "kernel": 3}]}}})",
       "model.net.encoders.image.layers[0].channel: unknown key, did you mean "
       "model.net.encoders.image.layers[0].channels?"},
      {R"({"encoders": {"image": {"layers": [{"channels": 4, "kernel_size": 3}]}}})",
       "model.net.encoders.image.layers[0].kernel_size: unknown key, model.net.encoders.image.layers[0] has: channels, "
       "kernel, stride, padding"},
      {R"({"encoders": {"image": {"layers": [{"kernel": 3}, {"channels": 4, "kernel": 3}]}}})",
       "model.net.encoders.image.layers[0].channels: is missing, expected an integer in [1, 65536]"},
      {R"({"encoders": {"tokens": {"kind": "embedding", "value": 4}}})",
       "model.net.encoders.tokens.value: unknown key, did you mean model.net.encoders.tokens.values?"},
      {R"({"encoders": {"image": {"layers": [{"channels": 4, "kernel": 3, "stride": 0}]}}})",
       "model.net.encoders.image.layers[0].stride: 0 is out of range, expected an integer in [1, 1024]"},
      {R"({"encoders": {"image": {"layers": [{"channels": 4, "kernel": 3, "strides": 2}]}}})",
       "model.net.encoders.image.layers[0].strides: unknown key, did you mean "
       "model.net.encoders.image.layers[0].stride?"},
      {R"({"encoders": {"image": {"order": "cwh"}}})",
       "model.net.encoders.image.order: \"cwh\" is unknown, expected one of: auto, chw, hwc"},
      {R"({"encoders": {"image": {"kind": "nature"}}})",
       "model.net.encoders.image.kind: \"nature\" needs at least 36 x 36 pixels, but observation image has 9 x 9; use "
       "\"conv\""},
      {R"({"encoders": {"tokens": {"kind": "conv"}}})",
       "model.net.encoders.tokens.kind: needs an image, but observation tokens is [3]; use \"mlp\""},
      {R"({"encoders": {"state": {"kind": "embedding", "values": 3}}})",
       "model.net.encoders.state.kind: \"embedding\" needs integers, but observation state is float32; use \"mlp\""},
      {R"({"encoders": {"tokens": {"kind": "embedding"}}})",
       "model.net.encoders.tokens.values: is missing, expected an integer in [1, 10000000]"},
      {R"({"encoders": {"image": {}, "state": {}, "tokens": {}, "*": {"kind": "mlp"}}})",
       "model.net.encoders.*: has no effect, because every observation of Made-up is named beside it; remove it"},
      {R"({"encoders": {"image": {"kind": "conv"}, "*": {"kind": "mlp", "hidden": [-1]}}})",
       "model.net.encoders.*.hidden[0]: -1 is out of range, expected an integer in [1, 65536]"},
  };
  for (const auto& [json, message] : cases) {
    CAPTURE(json);
    CHECK(mistake_in(net_of(json)) == message);
  }
  CHECK(mistake_in(net_of(R"({"encoders": {"state": {"kind": "embedding", "values": 3}}})"),
                   spec_of({{"state", DType::bf16, {4}}})) ==
        "model.net.encoders.state.kind: \"embedding\" needs integers, but observation state is bfloat16; use \"mlp\"");
  CHECK(
      mistake_in(net_of(R"({"encoders": {"image": {"kind": "conv"}}})"), spec_of({{"image", DType::i32, {9, 9, 3}}})) ==
      "model.net.encoders.image.kind: needs an image of uint8 or floating-point numbers, but observation image is "
      "int32; use "
      "\"mlp\" or \"embedding\"");
  std::string many = R"({"trunk": [1)";
  for (int i = 0; i < 32; ++i) many += ", 1";
  CHECK(mistake_in(net_of(many + "]}")) ==
        "model.net.trunk: 33 items, expected an array of at most 32 integers in [1, 65536]");
  ModelConfig normalized = net_of("{}");
  normalized.normalize_observations = true;
  CHECK(mistake_in(normalized) == "accepted");
  CHECK(mistake_in(normalized, spec_of({kImage})).starts_with("model.normalize_observations: true has no effect"));
}

namespace {

std::string sequences_of(int64_t length, int64_t sequence, int64_t burn_in, const char* core = "lstm") {
  RunConfig config;
  config.model = net_of(std::string(R"({"core": {"kind": ")") + core + R"("}})");
  config.rollout.length = length;
  config.model.sequence = sequence;
  config.model.burn_in = burn_in;
  try {
    const Recurrence recurrence = recurrence_of(config, spec_of({kNumbers}));
    return std::to_string(recurrence.sequence) + ' ' + std::to_string(recurrence.burn_in);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("recurrence: sequences divide the rollout") {
  CHECK(sequences_of(32, 0, 0) == "32 0");
  CHECK(sequences_of(128, 0, 0) == "32 0");
  CHECK(sequences_of(50, 0, 4) == "25 4");
  CHECK(sequences_of(1, 0, 0) == "1 0");
  CHECK(sequences_of(37, 37, 36) == "37 36");
  CHECK(sequences_of(32, 0, 0, "none") == "0 0");
  CHECK(sequences_of(37, 0, 0) ==
        "rollout.length: 37 has no divisor from 8 to 32 for the sequences of a recurrent model; use a multiple of 16, "
        "or set model.sequence");
  CHECK(sequences_of(74, 0, 0).starts_with("rollout.length: 74 has no divisor from 8 to 32 "));
  CHECK(sequences_of(74, 2, 0) == "2 0");
  CHECK(sequences_of(8, 0, 0) == "8 0");
  CHECK(sequences_of(7, 0, 0) == "7 0");
  CHECK(sequences_of(35, 0, 0).starts_with("rollout.length: 35 has no divisor from 8 to 32 "));
  const auto no_divisor = [](int64_t sequence, int64_t length, const std::string& near) {
    return "model.sequence: " + std::to_string(sequence) + " does not divide rollout.length " + std::to_string(length) +
           "; use a divisor of it, like " + near;
  };
  CHECK(sequences_of(128, 5, 0) == no_divisor(5, 128, "4 or 8"));
  CHECK(sequences_of(60, 17, 0) == no_divisor(17, 60, "15 or 20"));
  CHECK(sequences_of(37, 5, 0) == no_divisor(5, 37, "1 or 37"));
  CHECK(sequences_of(32, 64, 0) == no_divisor(64, 32, "32"));
  CHECK(sequences_of(32, 8, 8) ==
        "model.burn_in: 8 leaves nothing to train on of the 8 steps of a sequence (model.sequence); use at most 7");
  CHECK(sequences_of(32, 8, 0, "none") ==
        "model.sequence: 8 has no effect with a model that is not recurrent; set model.net.core.kind to \"gru\" or "
        "\"lstm\", or remove model.sequence (default 0)");
  CHECK(sequences_of(32, 0, 1, "none").starts_with("model.burn_in: 1 has no effect"));
}

TEST_CASE("net_layout: the example of docs/models.md is a network") {
  std::ifstream page("docs/models.md");
  REQUIRE(page.good());
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  const size_t begin = text.find("```json\n") + 8, end = text.find("```", begin);
  REQUIRE(end != std::string::npos);
  RunConfig config = parse_config(text.substr(begin, end - begin), "docs/models.md");
  CHECK_NOTHROW(validate(config));
  const EnvSpec spec =
      spec_of({{"camera", DType::u8, {96, 128, 3}}, {"joints", DType::f32, {7}}, {"task", DType::i32, {}}});
  CHECK(recurrence_of(config, spec).sequence == 16);
  CHECK(network_layout(config.model, spec).state_size == 256);
}
