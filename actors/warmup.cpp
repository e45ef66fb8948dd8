#include "actors/warmup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/experience/kinds.h"
#include "models/heads/heads.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/rng.h"
#include "runtime/base/text_format.h"

namespace troupe {
namespace {

constexpr uint64_t kBetweenChecks = 5;  // steps, until the first right answer; then one

}  // namespace

Warmup::Warmup(std::shared_ptr<const RunSpec> run, const WarmupState& state)
    : run_(std::move(run)), config_(run_->config.warmup), state_(state) {
  TROUPE_CHECK(kind_of(*run_).demonstrations != nullptr, kind_of(*run_).name);
  state_.of = static_cast<uint64_t>(config_.steps);
}

bool Warmup::check_due() const {
  if (!checks() || state_.step == 0 || state_.checked == state_.step || state_.step > state_.of) return false;
  return any_right() || state_.step % kBetweenChecks == 0 || state_.step == state_.of;
}

bool Warmup::over() const {
  if (check_due()) return false;
  return state_.step >= state_.of || (checks() && state_.pass_at_1 >= config_.pass_at_1);
}

bool Warmup::is_point() const {
  if (state_.step == 0 || check_due()) return false;
  const uint64_t every = std::max<uint64_t>(1, std::bit_floor(state_.step) / 64);
  return state_.step % every == 0 || state_.checked == state_.step || over();
}

void Warmup::step(Learner& learner) {
  const uint64_t key = derive_key(derive_key(run_->config.seed, "warm-up"), "step", state_.step);
  const std::unique_ptr<StagedBatch> batch = kind_of(*run_).demonstrations(*run_, key, config_.batch);
  try {
    state_.loss = learner.imitate(*batch, config_.learning_rate);
  } catch (const NotFinite& cause) {
    refuse(cause.what());
  }
  ++state_.step;
}

constexpr int kMostUnscored = 3;  // checks in a row

void Warmup::take_check(const Evaluation& check) {
  if (check.not_finite) refuse(check.error);
  const bool none_scored = !check.error.empty() && check.episodes == 0 && check.failed_episodes > 0;
  unscored_ = none_scored ? unscored_ + 1 : 0;
  if (unscored_ == kMostUnscored)
    throw ConfigError("warmup.pass_at_1: no answer has got a score in " + std::to_string(kMostUnscored) +
                      " checks in a row: " + check.error);
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
  throw ConfigError("warmup.policy_lr: " + nlohmann::json(config_.learning_rate).dump() +
                    " makes the warm-up diverge: " + cause + " after " + format_counted(state_.step, "step") +
                    "; use a smaller rate");
}

}  // namespace troupe
