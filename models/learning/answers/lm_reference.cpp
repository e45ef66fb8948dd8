#include "models/learning/answers/lm_reference.h"

#include "models/learning/answers/answer_parts.h"
#include "models/learning/answers/answer_pass.h"
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
      : options_(options),
        parallel_(options.threads),
        replica_(model, parallel_),
        token_log_probs_(replica_.decoder(), parallel_, kLogitRows, model.tokens),
        pass_(replica_.decoder(), token_log_probs_, options.temperature),
        cost_(answer_cost(model.shape)) {}

  void load(const WeightSnapshot& weights) override { replica_.load(weights); }
  std::vector<float> log_probs(std::span<const PromptAnswers> prompts) override {
    TROUPE_CHECK(replica_.loaded(), "load() comes first");
    const AnswerBatch batch = batch_of(prompts);
    std::vector<float> result(batch.tokens.size());
    for (const MicroBatch& part : cut_answers(batch, options_.batch_tokens, cost_)) {
      const PackedAnswers packed = pack_answers(batch, part);
      pass_.forward(packed, hidden_);
      pass_.log_probs(packed, hidden_.span(), result);
    }
    return result;
  }

 private:
  LmReferenceOptions options_;
  ParallelFor parallel_;
  LmReplica replica_;
  TokenLogProbs token_log_probs_;
  AnswerPass pass_;
  AnswerCost cost_;
  FloatBuffer hidden_;
};

}  // namespace

std::unique_ptr<ReferenceModel> make_lm_reference(const LmModel& model, const LmReferenceOptions& options) {
  return std::make_unique<LmReference>(model, options);
}

}  // namespace troupe
