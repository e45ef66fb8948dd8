// The learner of token runs against TRL's GRPOTrainer: loss and gradient of one optimizer step on the same answers and
// weights, for the loss types of TRL that a run has (trl_case.py).

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/config/config.h"
#include "models/learning/answers/answer_learner.h"
#include "models/lm/hf_folder.h"
#include "models/lm/lm_model.h"
#include "runtime/base/file.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr double kTolerance = 1e-5;  // to TRL in float64; of a gradient relative to its largest element

// The config file of the case, with one optimizer step whose gradient stays in the saved state.
RunConfig config_of(const Safetensors& expected, const std::string& name) {
  RunConfig config = parse_config(expected.metadata.at("config"), name);
  config.trainer.epochs = config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  config.trainer.max_grad_norm = 0;
  config.trainer.adam_beta1 = 0;  // the first moment is the gradient
  return config;
}

RolloutPtr rollout_of(const std::map<std::string, Array>& answers) {
  const Array& group = answers.at("group");
  auto rollout = std::make_shared<Rollout>();
  rollout->body =
      Answers{.prompts = answers.at("prompts"),
              .prompt_offsets = answers.at("prompt_offsets"),
              .sampled = {.tokens = answers.at("tokens"),
                          .offsets = answers.at("offsets"),
                          .log_probs = answers.at("log_probs"),
                          .version = array_of(std::vector<int64_t>(static_cast<size_t>(answers.at("tokens").size()))),
                          .finish = answers.at("cut")},
              .group = group,
              .rewards = answers.at("rewards"),
              .right = array_of(std::vector<uint8_t>(static_cast<size_t>(group.size())))};
  return rollout;
}

// A learner with the weights of the folder `policy`, and as its reference those of `reference`.
std::unique_ptr<Learner> learner_of(const RunConfig& config, const std::string& folder, int64_t micro_batch_tokens) {
  LmModel model(HfFolder(posix_disk(), folder + "/reference").shape());
  model.path = folder + "/reference";
  auto learner = make_answer_learner(config, model,
                                     {.temperature = config.generation.temperature,
                                      .answer_tokens = config.generation.max_tokens,
                                      .micro_batch_tokens = micro_batch_tokens,
                                      .threads = 2});
  LearnerState state = learner->save();
  HfFolder(posix_disk(), folder + "/policy").read([&](const std::string& name) {
    return state.model.at(name).mutable_view<float>();
  });
  learner->load(state);
  return learner;
}

double difference(std::span<const float> is, std::span<const double> should) {
  REQUIRE(is.size() == should.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < is.size(); ++i) {
    worst = std::max(worst, std::abs(double{is[i]} - should[i]));
    largest = std::max(largest, std::abs(should[i]));
  }
  CHECK(largest > 0);
  return std::isfinite(worst) ? worst / largest : worst;
}

struct Differences {
  double loss = 0, gradient = 0;  // gradient: the largest of all tensors
};

Differences check_step(const std::string& folder, const Safetensors& expected, const RunConfig& config,
                       int64_t micro_batch_tokens) {
  const std::unique_ptr<Learner> learner = learner_of(config, folder, micro_batch_tokens);
  const RolloutPtr rollout = rollout_of(expected.tensors);
  const UpdateReport report = learner->update(*learner->stager()->stage(whole(rollout)), 0);
  CHECK(report.steps == 1);
  if (config.algorithm.surrogate != "sapo") CHECK(report.metrics.at("clip_fraction") > 0.05);
  const double loss = report.metrics.at("policy_loss") - config.algorithm.entropy_coef * report.metrics.at("entropy"),
               should = expected.tensors.at("loss").view<double>()[0];
  Differences result{.loss = std::abs(loss - should) / std::abs(should)};
  CHECK(result.loss < kTolerance);
  const LearnerState state = learner->save();
  size_t gradients = 0;
  for (const TensorSpec& spec : learner->saved_signature()->tensors) {
    CAPTURE(spec.name);
    const double error = difference(state.optimizer.at("first." + spec.name).view<float>(),
                                    expected.tensors.at("gradient." + spec.name).view<double>());
    CHECK(error < kTolerance);
    result.gradient = std::max(result.gradient, error);
    ++gradients;
  }
  CHECK(gradients == static_cast<size_t>(std::ranges::count_if(
                         expected.tensors, [](const auto& tensor) { return tensor.first.starts_with("gradient."); })));
  return result;
}

}  // namespace

TEST_CASE("answer_learner: loss and gradients of every loss type are those of TRL's GRPOTrainer") {
  if (!python_has("trl")) {
    MESSAGE("skipped: ", test_python(), " has no package trl (tools/requirements-peers.txt)");
    return;
  }
  const TempFolder folder;
  const ProgramResult made = run_program(test_python() + " tests/models/lm/trl_case.py " + folder.path() + " 2>&1");
  REQUIRE_MESSAGE(made.exit_code == 0, made.output);
  int cases = 0;
  for (const std::string model : {"llama", "qwen2"})
    for (const std::string& file : posix_disk().list(folder / model)) {
      if (!file.ends_with(".safetensors")) continue;
      CAPTURE(model);
      CAPTURE(file);
      ++cases;
      const Safetensors expected = read_safetensors(posix_disk(), (folder / model) + '/' + file);
      const RunConfig config = config_of(expected, file);
      for (const int64_t micro_batch_tokens : {0, 40}) {
        const Differences is = check_step(folder / model, expected, config, micro_batch_tokens);
        MESSAGE(model, " ", file, ": loss ", is.loss, ", gradients ", is.gradient, "; TRL in float32: loss ",
                expected.metadata.at("float32_loss"), ", gradients ", expected.metadata.at("float32_gradient"));
      }
    }
  CHECK(cases == 28);
}
