#include "models/networks/model_meaning.h"

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

ModelConfig net_of(const std::string& json) {
  ModelConfig config;
  config.kind = "net";
  config.net = json;
  return config;
}

const EnvSpec kCamera = spec_of({{"camera", DType::u8, {8, 8, 8}}});

std::string camera(const std::string& settings) {
  return R"({"encoders": {"camera": {"kind": "conv")" + settings + "}}}";
}

// The error about two models with equal tensors that read images differently, or "".
std::string difference(const std::string& source, const std::string& now) {
  try {
    require_same_meaning(net_of(source), net_of(now), kCamera);
    return "";
  } catch (const ConfigError& refused) {
    return refused.what();
  }
}

}  // namespace

TEST_CASE("model_meaning: a setting that changes what a model computes with its tensors is refused by name") {
  const EnvSpec env = spec_of({{"state", DType::f32, {4}}});
  ModelConfig source, now;
  CHECK_NOTHROW(require_same_meaning(source, now, env));
  SUBCASE("activation") {
    now.activation = "relu";
    CHECK_THROWS_WITH_AS(
        require_same_meaning(source, now, env),
        "was trained with model.activation \"tanh\", this run has \"relu\"; give this run the same value", ConfigError);
  }
  SUBCASE("kind") {
    now.kind = "net";
    CHECK_THROWS_WITH_AS(require_same_meaning(source, now, env),
                         "was trained with model.kind \"mlp\", this run has \"net\"; give this run the same value",
                         ConfigError);
  }
  SUBCASE("observation_clip, if observations are normalised") {
    now.observation_clip = 5;
    CHECK_NOTHROW(require_same_meaning(source, now, env));
    source.normalize_observations = now.normalize_observations = true;
    CHECK_THROWS_WITH_AS(require_same_meaning(source, now, env),
                         "was trained with model.observation_clip 10, this run has 5; give this run the same value",
                         ConfigError);
  }
  SUBCASE("settings that only training uses may differ") {
    now.policy_gain = 1;
    now.log_std = "scheduled";
    now.log_std_start = -1;
    CHECK_NOTHROW(require_same_meaning(source, now, env));
  }
}

TEST_CASE("model_meaning: the same layers of model.net must be computed in the same way") {
  const std::string head = "was trained with model.net.encoders.camera, whose layer ",
                    tail = "; give this run the same encoder";
  CHECK(difference(camera(R"(, "order": "hwc")"), camera(R"(, "order": "chw")")) ==
        head + "0 is an image in the order hwc; in this run it is an image in the order chw" + tail);
  const std::string flat = R"({"encoders": {"camera": {"kind": "mlp", "hidden": [64]}}})",
                    pixels = camera(R"(, "layers": [], "order": "hwc", "hidden": [64])");
  CHECK(difference(flat, pixels) == head + "0 is a linear layer; in this run it is an image in the order hwc" + tail);
  CHECK(difference(pixels, flat) == head + "0 is an image in the order hwc; in this run it is a linear layer" + tail);
  CHECK(difference(camera(""), camera(R"(, "order": "chw")")) == "");  // with equal extents the default order is chw
  const auto layers = [](const std::string& second) {
    return camera(R"(, "layers": [{"channels": 4, "kernel": 3, "padding": 1}, {"channels": 4, "kernel": 1)" + second +
                  R"(}], "hidden": [])");
  };
  CHECK(difference(layers(R"(, "stride": 2)"), layers(R"(, "stride": 3)")) ==
        head + "2 is a convolution with stride 2 and padding 0; in this run it is a convolution with stride 3 and " +
            "padding 0" + tail);
  CHECK(difference(layers(""), layers(R"(, "padding": 1)")) ==
        head + "2 is a convolution with stride 1 and padding 0; in this run it is a convolution with stride 1 and " +
            "padding 1" + tail);
  CHECK(difference(layers(""), layers(R"(, "stride": 1)")) == "");
}

TEST_CASE("model_meaning: models with and without a value trunk differ, also if it has no layers") {
  const std::string without = R"({"trunk": [64]})", with = R"({"trunk": [64], "value_trunk": []})";
  CHECK(difference(without, with) ==
        "was trained without model.net.value_trunk [], this run has it; give this run the same");
  CHECK(difference(with, without) ==
        "was trained with model.net.value_trunk [], this run has none; give this run the same");
  CHECK(difference(with, with) == "");
}

TEST_CASE("model_meaning: observations must be the same by name, order, dtype and shape") {
  const ArraySpec place = {"place", DType::f32, {2}}, goal = {"goal", DType::f32, {2}},
                  bytes = {"goal", DType::u8, {2}};
  const EnvSpec now = spec_of({place, goal});
  CHECK_NOTHROW(require_same_observations(now, now));
  CHECK_THROWS_WITH_AS(require_same_observations(spec_of({goal, place}), now),
                       "was trained on the observations goal float32 [2], place float32 [2] of Made-up, this run's "
                       "Made-up gives place float32 [2], goal float32 [2]",
                       ConfigError);
  CHECK_THROWS_AS(require_same_observations(spec_of({place, bytes}), now), ConfigError);
  CHECK_THROWS_AS(require_same_observations(spec_of({place}), now), ConfigError);
}
