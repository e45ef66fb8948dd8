#pragma once
// AnswerTrainer: the weights of a decoder on the CPU, their optimizer, and one optimizer step on some answers. Owned by
// a learner; one thread at a time, which computes on the threads of its own ParallelFor.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/decoder/decoder.h"
#include "models/decoder/token_log_probs.h"
#include "models/learning/answers/answer_batch.h"
#include "models/learning/answers/token_loss.h"
#include "models/learning/objective.h"
#include "models/learning/optimizer.h"
#include "models/learning/trainer_config.h"
#include "models/lm/lm_model.h"

namespace troupe {

struct AnswerTrainerOptions {
  uint64_t seed = 1;               // of the first weights
  double temperature = 1.0;        // at which the answers were sampled
  int64_t answer_tokens = 64;      // the largest number of tokens of an answer
  int64_t micro_batch_tokens = 0;  // of one forward and backward pass; 0 = the whole minibatch
  int threads = 1;
};

class AnswerTrainer {
 public:
  AnswerTrainer(const LmModel& model, const TrainerConfig& trainer, const AlgorithmChoice& choice,
                const AnswerTrainerOptions& options);

  const WeightBlock& weights() const { return weights_; }
  Optimizer& optimizer() { return optimizer_; }
  const Optimizer& optimizer() const { return optimizer_; }
  // Replaces all weights by these, by the signature's names. They must fit.
  void load_weights(const std::map<std::string, Array>& model);

  // One optimizer step with the loss of these groups, in parts of micro_batch_tokens: begin_step(), which returns their
  // number, backward() for each of them, and apply(), whose losses are means over tokens. advantages: [T] of the batch.
  // Batch, advantages and settings must outlive the step.
  size_t begin_step(const AnswerBatch& batch, std::span<const float> advantages, std::span<const int64_t> groups,
                    const UpdateSettings& settings);
  void backward(size_t part);
  StepReport apply();
  // All of it.
  StepReport step(const AnswerBatch& batch, std::span<const float> advantages, std::span<const int64_t> groups,
                  const UpdateSettings& settings);
  // One optimizer step that makes all answers of the batch more likely: its loss is their mean negative log-likelihood
  // per token.
  StepReport imitate(const AnswerBatch& demonstrations, double learning_rate);

 private:
  // The step under way.
  struct Step {
    const AnswerBatch* batch = nullptr;
    std::span<const float> advantages = {};
    const UpdateSettings* settings = nullptr;
    TokenCounts totals = {};
    std::vector<std::vector<int64_t>> parts = {};  // groups
    TokenLoss* of = nullptr;                       // computes the loss
    LossReport loss = {};
  };

  StepReport finish_step();
  LossReport accumulate(std::span<const int64_t> groups);
  void use_weights();

  LmModel model_;
  LmShape shape_;
  AnswerTrainerOptions options_;
  WeightBlock weights_;
  Optimizer optimizer_;
  std::vector<float> gradients_;  // laid out as the trained parameters
  ParallelFor parallel_;
  Decoder decoder_;
  TokenLogProbs token_log_probs_;
  TokenLoss loss_, likelihood_;
  Step step_;
  Activations activations_;
  FloatBuffer hidden_, d_hidden_;
  std::vector<float> log_probs_, entropy_, d_log_probs_, d_entropy_, behaviour_, advantages_;  // of one part
};

}  // namespace troupe
