// Checks of tensors with which a model shall begin, and the error about the first one that does not fit.
#include "models/weights/initial_weights.h"

#include <limits>

#include "models/weights/model_weights.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Tensors = std::map<std::string, Array>;

EnvSpec env_spec() {
  EnvSpec spec;
  spec.id = "Test";
  spec.observations = {{"observation", DType::f32, {3}}};
  spec.action.kind = ActionKind::continuous;
  spec.action.low = {-1};
  spec.action.high = {1};
  return spec;
}

struct Model {
  Model() {
    config.hidden = {4};
    config.normalize_observations = config.normalize_returns = true;
  }
  Signature signature() const { return model_signature(config, env_spec()); }
  Tensors tensors(uint64_t seed = 7) const { return initial_weights(config, env_spec(), seed).save(); }
  ModelConfig config;
};

// The error, or "" if the tensors are accepted.
std::string misfit(const Signature& model, const Tensors& tensors) {
  try {
    check_initial_weights(model, tensors);
    return "";
  } catch (const ConfigError& refused) {
    return refused.what();
  }
}

}  // namespace

TEST_CASE("initial_weights: tensors of the same names, shapes and dtypes fit, whatever their values") {
  const Model model;
  CHECK(misfit(model.signature(), model.tensors()) == "");
  CHECK(misfit(model.signature(), model.tensors(8)) == "");
  Model scheduled;
  scheduled.config.log_std = "scheduled";  // then log_std is a buffer with the same name
  CHECK(misfit(scheduled.signature(), model.tensors()) == "");
}

TEST_CASE("initial_weights: the error names the first tensor that is missing, unknown, or of another shape or dtype") {
  const Model model;
  Model wider, plain;
  wider.config.hidden = {5};
  plain.config.normalize_observations = false;
  CHECK(misfit(wider.signature(), model.tensors()) ==
        "tensor policy.0.bias is float32 [4], this run's model has float32 [5]");
  CHECK(misfit(model.signature(), plain.tensors()) ==
        "tensor observation_normalizer.count is missing, this run's model has float64 []");
  CHECK(misfit(plain.signature(), model.tensors()) ==
        "tensor observation_normalizer.count is float64 [], this run's model has no such tensor");
  Tensors other = model.tensors();
  other["policy.head.bias"] = Array(DType::f64, {1});
  CHECK(misfit(model.signature(), other) == "tensor policy.head.bias is float64 [1], this run's model has float32 [1]");
  CHECK(misfit(model.signature(), {}) == "tensor policy.0.bias is missing, this run's model has float32 [4]");
}

TEST_CASE("initial_weights: numbers that are not finite and impossible statistics are refused") {
  const Model model;
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Tensors tensors = model.tensors();
    tensors["value.0.weight"].mutable_view<float>()[5] = static_cast<float>(bad);
    CHECK(misfit(model.signature(), tensors) == "tensor value.0.weight holds a number that is not finite");
    tensors = model.tensors();
    tensors["return_normalizer.mean"].mutable_view<double>()[0] = bad;
    CHECK(misfit(model.signature(), tensors) == "tensor return_normalizer.mean holds a number that is not finite");
  }
  for (const std::string name : {"observation_normalizer.count", "observation_normalizer.m2", "return_normalizer.m2"}) {
    Tensors tensors = model.tensors();
    tensors[name].mutable_view<double>()[0] = -1;
    CHECK(misfit(model.signature(), tensors) == "tensor " + name + " holds a negative number");
  }
}

TEST_CASE("initial_weights: statistics that overflow are refused, large ones are accepted") {
  const Model model;
  const auto with = [&](const std::string& name, double x) {
    Tensors tensors = model.tensors();
    tensors.at(name).mutable_view<double>()[0] = x;
    return misfit(model.signature(), tensors);
  };
  for (const std::string prefix : {"observation_normalizer", "return_normalizer"}) {
    CHECK(with(prefix + ".mean", 1.7e308) ==
          "tensor " + prefix + ".mean holds 1.7e+308, expected at most 1e+30 in size");
    CHECK(with(prefix + ".mean", -1e31) == "tensor " + prefix + ".mean holds -1e+31, expected at most 1e+30 in size");
    CHECK(with(prefix + ".m2", 1e61) == "tensor " + prefix + ".m2 holds 1e+61, expected at most 1e+60 in size");
    CHECK(with(prefix + ".count", 1e20).starts_with("tensor " + prefix + ".count holds 1e+20, expected at most 9.0"));
    CHECK(with(prefix + ".mean", -1e29) == "");
    CHECK(with(prefix + ".m2", 1e59) == "");
    CHECK(with(prefix + ".count", 1e15) == "");
  }
  Tensors many = model.tensors();
  many.at("return_normalizer.count").mutable_view<double>()[0] = 1e6;
  many.at("return_normalizer.m2").mutable_view<double>()[0] = 1e65;
  CHECK(misfit(model.signature(), many) == "");
}
