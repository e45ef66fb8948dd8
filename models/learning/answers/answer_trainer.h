#pragma once
// AnswerTrainer: the weights of a decoder on the CPU and of its critic, their optimizer, and one optimizer step on some
// answers. Owned by a learner; one thread at a time, which computes on the threads of its own ParallelFor.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/decoder/decoder.h"
#include "models/decoder/token_log_probs.h"
#include "models/learning/answers/answer_batch.h"
#include "models/learning/answers/answer_correction.h"
#include "models/learning/answers/answer_critic.h"
#include "models/learning/answers/answer_parts.h"
#include "models/learning/answers/answer_pass.h"
#include "models/learning/answers/answer_targets.h"
#include "models/learning/answers/shard_gradients.h"
#include "models/learning/answers/start_tokens.h"
#include "models/learning/objective.h"
#include "models/learning/optimizer.h"
#include "models/learning/token_loss.h"
#include "models/learning/trainer_config.h"
#include "models/lm/lm_model.h"
#include "models/weights/gradient_block.h"

namespace troupe {

struct AnswerTrainerOptions {
  uint64_t seed = 1;               // of the first weights
  double temperature = 1.0;        // at which the answers were sampled
  int64_t answer_tokens = 64;      // the largest number of tokens of an answer, in all turns
  int64_t turn_tokens = 64;        // and in one turn
  int64_t micro_batch_tokens = 0;  // of one forward and backward pass; 0 = the whole minibatch
  // A pass of more tokens computes the layers again in the backward pass: Activations::recompute_above.
  int64_t recompute_above = INT64_MAX;
  int threads = 1;
  // A learner takes these from its config.
  double value_coef = 0.5;        // weight of the value loss
  bool reference = false;         // whether there is one
  KlEstimator reference_kl = {};  // in the loss
};

class AnswerTrainer {
 public:
  AnswerTrainer(const LmModel& model, const TrainerConfig& trainer, const AlgorithmChoice& choice,
                const AnswerTrainerOptions& options);

  bool has_critic() const { return critic_.used(); }
  // Snapshots and what is saved may have its memory, see WeightBlock::share().
  const WeightBlock& weights() const { return weights_; }
  Optimizer& optimizer() { return optimizer_; }
  const Optimizer& optimizer() const { return optimizer_; }
  // Replaces all weights by these, by the signature's names. They must fit.
  void load_weights(const std::map<std::string, Array>& model);
  // The first weights of the policy are final: a separate critic begins again as begin_critic() says.
  void begin_critic();
  // The reference is the policy as it is from now on. Its weights, under the names of the signature, and back.
  void hold_reference();
  const std::optional<WeightBlock>& reference() const { return reference_; }
  void load_reference(const std::map<std::string, Array>& weights);

  // As Objective has it.
  void hold_shards(ShardRange shards) { sum_.hold(shards); }
  void hold_slice(ElementRange elements) { sum_.hold_slice(elements); }
  // What an update needs of the weights as they are, by shard; then it begins with the answers of all shards, of which
  // log_probs is what start() gave, or empty where these are not needed.
  std::vector<AnswerStart> start(std::span<const AnswerBatch* const> shards, const AnswerNeeds& needs);
  AnswerStart start(const AnswerBatch& batch, const AnswerNeeds& needs);
  void begin_update(const AnswerBatch& batch, std::span<const float> log_probs);
  // Of the update under way, from its first step on.
  std::optional<LagFigures> lag_figures() const { return start_tokens_.figures(); }
  // Of the micro-batches of the update, of all shards.
  const BalanceFigures& balance() const { return balance_; }

  // One optimizer step with the loss of these groups, in parts of micro_batch_tokens, as Objective has it:
  // begin_step(), which returns the number of parts of each micro-batch, backward() for each of them, unless all shards
  // are held end_backward(), say_losses() and set_gradients(), end_micro_batch(), and apply(), whose losses are means
  // over tokens. The parts are divided among the shards by their costs, whichever shard the answers are of. Targets of
  // the batch without values train the policy alone. Batch, targets and settings must outlive the step. `clock`, if
  // there is one, is marked as Objective::backward() says.
  std::vector<size_t> begin_step(const AnswerBatch& batch, const AnswerTargets& targets,
                                 std::span<const int64_t> groups, const UpdateSettings& settings);
  void backward(size_t part, StageClock* clock = nullptr);
  void say_gradients_to(Objective::SayGradients say) { say_ = std::move(say); }
  void end_backward() { sum_.end_backward(gradients_, say_); }
  RankPart say_losses();
  void set_gradients(ElementRange elements, const Array& sum) { copy_to(gradients_.floats(), elements, sum); }
  void end_micro_batch(const RoundResult& losses = {});
  GradientSquares squares(ElementRange elements) {
    return optimizer_.squares(gradients_.floats().subspan(elements.begin, elements.size()), elements.begin);
  }
  // `squares`: null with one shard, or where all are held.
  StepReport apply(std::span<const ShardNumbers> all = {}, const GradientSquares* squares = nullptr);
  Array parameters(ElementRange elements);
  void set_parameters(ElementRange elements, const Array& values) { copy_to(weights_.parameters(), elements, values); }
  // After apply(), if it has changed them.
  void use_parameters() { use_weights(); }
  // Instead of those that begin_step() has cut, with one shard. They must have the same answers.
  void use_parts(std::vector<MicroBatch> parts);
  // All of it.
  StepReport step(const AnswerBatch& batch, const AnswerTargets& targets, std::span<const int64_t> groups,
                  const UpdateSettings& settings);
  // One optimizer step that makes all answers of the batch more likely: its loss is their mean negative log-likelihood
  // per token.
  StepReport imitate(const AnswerBatch& demonstrations, double learning_rate);

 private:
  // The step under way.
  struct Step {
    const AnswerBatch* batch = nullptr;
    const AnswerTargets* targets = nullptr;
    const UpdateSettings* settings = nullptr;
    double tokens = 0;                                // of the answers, that the batch keeps
    TokenCounts totals = {};                          // of those that the loss of the policy keeps
    std::vector<std::vector<MicroBatch>> parts = {};  // of each shard
    StepLeaves leaves = {};                           // the parts of those that are held
    TokenLoss* of = nullptr;                          // computes the loss
    bool corrects = false;                            // its own tokens, after the forward pass
    StageClock* clock = nullptr;
    std::vector<LossReport> losses = {};         // by shard that is held
    std::vector<std::vector<float>> start = {};  // likewise: the log-probabilities that start_tokens_ asks for
    std::vector<int64_t> reference_rows = {};    // [T] in reference_hidden_, unless all shards are held
  };
  // Of the tokens of one part.
  struct PartBuffers {
    std::vector<float> log_probs, entropy, d_log_probs, d_entropy, behaviour, advantages, reference, exact_kl,
        d_exact_kl;
    std::vector<int64_t> lags;
    std::vector<uint8_t> kept;  // by the batch
    std::vector<uint8_t> lag_classes;
    AnswerCorrection correction;  // without its metrics
    std::vector<float> values, old_values, returns, value_loss, d_values;
  };

  StepReport finish_step();
  void cut_step(std::span<const int64_t> groups);
  void begin_parts(std::vector<std::vector<MicroBatch>> parts);
  LossReport accumulate(const MicroBatch& answers);
  double gather_kept(const PackedAnswers& packed);
  void gather_part(const PackedAnswers& packed);
  void correct_part(const PackedAnswers& packed);
  void add_references(std::span<const AnswerBatch* const> shards, std::span<const std::vector<MicroBatch>> parts,
                      std::span<AnswerStart> to);
  void use_policy(const WeightBlock& weights);
  void pack_reference();
  void compute_reference_rows();
  ReferenceRows reference_rows(const PackedAnswers& packed);
  void add_value_loss(const PackedAnswers& packed, std::span<float> d_hidden, LossReport& report);
  PackedAnswers add_start(const AnswerBatch& batch, const MicroBatch& answers, const AnswerNeeds& needs,
                          AnswerStart& result);
  void use_weights();

  LmModel model_;
  LmShape shape_;
  AnswerTrainerOptions options_;
  AlgorithmChoice choice_;
  WeightBlock weights_;
  std::optional<WeightBlock> reference_;  // what is published of the policy
  PackedWeights reference_output_;        // where the KL is exact, but with adapters, which leave it frozen
  // Likewise: [T, hidden] of the shards that start() was given; where these are not all, of the parts of a step.
  FloatBuffer reference_hidden_;
  Optimizer optimizer_;
  GradientBlock gradients_;
  int64_t shards_;
  ShardGradients sum_;
  Objective::SayGradients say_;
  ParallelFor parallel_;
  Decoder decoder_;
  AnswerCritic critic_;
  TokenLogProbs token_log_probs_;
  AnswerPass pass_;
  TokenLoss loss_, likelihood_;
  AnswerCost cost_;
  Step step_;
  BalanceFigures balance_;
  StartTokens start_tokens_;
  bool exact_kl_;                  // to the reference
  Activations activations_;        // of either decoder
  FloatBuffer hidden_, d_hidden_;  // of the policy
  FloatBuffer reference_part_;     // [N, hidden] of the tokens of one part
  PartBuffers part_;
};

}  // namespace troupe
