#pragma once
// AnswerTrainer: the weights of a decoder on the CPU, their optimizer, and one optimizer step on some answers. Owned by
// a learner or a warm-up; one thread at a time, which computes on the threads of its own ParallelFor.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/decoder/decoder.h"
#include "models/decoder/token_log_probs.h"
#include "models/learning/answers/answer_batch.h"
#include "models/learning/answers/token_loss.h"
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

  struct Step {
    LossReport loss;         // means over tokens
    double grad_norm = 0.0;  // before clipping; the step was skipped, and nothing has changed, when `applied` is false
    bool applied = false;
  };
  // One optimizer step with the loss of these groups. advantages: [T] of the batch.
  Step step(const AnswerBatch& batch, std::span<const float> advantages, std::span<const int64_t> groups,
            LearningRates rates, const LossSettings& settings);

 private:
  LossReport accumulate(const AnswerBatch& batch, std::span<const float> advantages, std::span<const int64_t> groups,
                        const TokenCounts& totals, const LossSettings& settings);
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
  TokenLoss loss_;
  Activations activations_;
  FloatBuffer hidden_, d_hidden_;
  std::vector<float> log_probs_, entropy_, d_log_probs_, d_entropy_, behaviour_, advantages_;  // of one part
};

}  // namespace troupe
