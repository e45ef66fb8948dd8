#include "actors/experience/answers/warmup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "models/heads/heads.h"
#include "models/learning/answers/answer_batch.h"
#include "runtime/base/log.h"
#include "runtime/base/rng.h"
#include "runtime/base/text_format.h"

namespace troupe {
namespace {

constexpr uint64_t kBetweenChecks = 5;  // steps, until the first right answer; then one

// Demonstrations as answers, one to each prompt.
AnswerBatch demonstrations(const TokenRun& run, uint64_t key, int64_t count) {
  AnswerBatch batch;
  batch.prompt_offsets = batch.group_offsets = batch.offsets = {0};
  for (int64_t i = 0; i < count; ++i) {
    Rng rng(derive_key(key, "demonstration", static_cast<uint64_t>(i)));
    const Prompt prompt = run.task->draw(rng, Split::train);
    const std::vector<int32_t> ids = run.encode(prompt), answer = run.tokenizer->encode(prompt.demonstration);
    batch.prompts.insert(batch.prompts.end(), ids.begin(), ids.end());
    batch.prompt_offsets.push_back(static_cast<int64_t>(batch.prompts.size()));
    batch.tokens.insert(batch.tokens.end(), answer.begin(), answer.end());
    batch.tokens.push_back(run.end_tokens.front());
    batch.offsets.push_back(static_cast<int64_t>(batch.tokens.size()));
    batch.rewards.push_back(1);
    batch.group_offsets.push_back(i + 1);
  }
  batch.log_probs.assign(batch.tokens.size(), 0.0f);
  return batch;
}

}  // namespace

Warmup::Warmup(const RunConfig& config, std::shared_ptr<const TokenRun> tokens, const WarmupState& state)
    : config_(config), tokens_(std::move(tokens)), state_(state) {
  state_.of = static_cast<uint64_t>(config.warmup.steps);
}

bool Warmup::check_due() const {
  if (!checks() || state_.step == 0 || state_.checked == state_.step || state_.step > state_.of) return false;
  return any_right() || state_.step % kBetweenChecks == 0 || state_.step == state_.of;
}

bool Warmup::over() const {
  if (check_due()) return false;
  return state_.step >= state_.of || (checks() && state_.pass_at_1 >= config_.warmup.pass_at_1);
}

bool Warmup::is_point() const {
  if (state_.step == 0 || check_due()) return false;
  const uint64_t every = std::max<uint64_t>(1, std::bit_floor(state_.step) / 64);
  return state_.step % every == 0 || state_.checked == state_.step || over();
}

void Warmup::step(Learner& learner) {
  const uint64_t key = derive_key(derive_key(config_.seed, "warm-up"), "step", state_.step);
  AnswerBatch batch = demonstrations(*tokens_, key, config_.warmup.batch);
  try {
    state_.loss = learner.imitate(batch, config_.warmup.learning_rate);
  } catch (const NotFinite& cause) {
    refuse(cause.what());
  }
  ++state_.step;
}

void Warmup::take_check(const Evaluation& check) {
  if (check.not_finite) refuse(check.error);
  if (check.error.empty())
    state_.pass_at_1 = check.success_rate;
  else if (!std::exchange(warned_, true))
    log_warn("trainer", "warm-up: pass@1 after step " + std::to_string(state_.step) + " is not known: " + check.error +
                            ". Further ones are not reported");
  state_.checked = state_.step;
}

void Warmup::end(Learner& learner) {
  const WeightsPtr weights = learner.snapshot({});
  for (size_t i = 0; i < weights->signature->tensors.size(); ++i) {
    const TensorSpec& spec = weights->signature->tensors[i];
    const Array tensor = weights->tensor(i);
    if (spec.dtype == DType::f32 &&
        !std::ranges::all_of(tensor.view<float>(), [](float x) { return std::isfinite(x); }))
      refuse("a weight of " + spec.name + " is not finite");
  }
  learner.end_warmup();
  state_.complete = true;
}

void Warmup::refuse(const std::string& cause) const {
  if (state_.step == 0) throw ConfigError("warmup: the model as it begins cannot be trained: " + cause);
  throw ConfigError("warmup.policy_lr: " + nlohmann::json(config_.warmup.learning_rate).dump() +
                    " makes the warm-up diverge: " + cause + " after " + format_counted(state_.step, "step") +
                    "; use a smaller rate");
}

}  // namespace troupe
