#include "models/learning/answers/lm_reference.h"

#include <optional>

#include "models/decoder/token_log_probs.h"
#include "models/learning/answers/answer_parts.h"
#include "models/lm/lm_replica.h"
#include "runtime/base/errors.h"

namespace troupe {
namespace {

AnswerBatch batch_of(std::span<const PromptAnswers> prompts) {
  AnswerBatch batch;
  batch.prompt_offsets = batch.group_offsets = batch.offsets = {0};
  for (const PromptAnswers& each : prompts) {
    batch.prompts.insert(batch.prompts.end(), each.prompt.begin(), each.prompt.end());
    batch.prompt_offsets.push_back(static_cast<int64_t>(batch.prompts.size()));
    const auto before = static_cast<int64_t>(batch.tokens.size());
    for (size_t a = 1; a < each.offsets.size(); ++a) batch.offsets.push_back(before + each.offsets[a]);
    batch.tokens.insert(batch.tokens.end(), each.tokens.begin(), each.tokens.end());
    batch.add_messages(each.messages, each.message_lengths);
    batch.group_offsets.push_back(static_cast<int64_t>(batch.offsets.size()) - 1);
  }
  return batch;
}

class LmReference final : public ReferenceModel {
 public:
  LmReference(const LmModel& model, const LmReferenceOptions& options)
      : model_(model),
        options_(options),
        parallel_(options.threads),
        replica_(model, parallel_),
        token_log_probs_(replica_.decoder(), parallel_, kLogitRows, model.tokens),
        cost_(answer_cost(model.shape)) {}

  void load(const WeightSnapshot& weights) override { replica_.load(weights); }
  std::vector<float> log_probs(std::span<const PromptAnswers> prompts) override {
    TROUPE_CHECK(replica_.loaded(), "load() comes first");
    const AnswerBatch batch = batch_of(prompts);
    std::vector<float> result(batch.tokens.size());
    for (const MicroBatch& part : cut_answers(batch, options_.batch_tokens, cost_)) add(batch, part, result);
    return result;
  }

 private:
  static constexpr int64_t kLogitRows = 128;  // that exist at once

  void add(const AnswerBatch& batch, const MicroBatch& answers, std::vector<float>& result) {
    const PackedAnswers packed = pack_answers(batch, answers);
    const auto inputs = static_cast<int64_t>(packed.ids.size());
    if (!store_ || store_->layers.front().cells() < inputs) store_.emplace(model_.shape, inputs);
    hidden_.resize(inputs * model_.shape.hidden);
    replica_.decoder().forward(packed.inputs(), *store_, hidden_.span());
    log_probs_.resize(packed.rows.size());
    token_log_probs_.forward(hidden_.span(), {packed.rows, packed.labels, options_.temperature}, log_probs_, {});
    for (size_t i = 0; i < packed.places.size(); ++i) result[static_cast<size_t>(packed.places[i])] = log_probs_[i];
  }

  LmModel model_;
  LmReferenceOptions options_;
  ParallelFor parallel_;
  LmReplica replica_;
  TokenLogProbs token_log_probs_;
  AnswerCost cost_;
  std::optional<KvStore> store_;
  FloatBuffer hidden_;
  std::vector<float> log_probs_;
};

}  // namespace

std::unique_ptr<ReferenceModel> make_lm_reference(const LmModel& model, const LmReferenceOptions& options) {
  return std::make_unique<LmReference>(model, options);
}

}  // namespace troupe
