#include "envs/normalized_actions.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "envs/forwarding_env.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

class NormalizedActions final : public ForwardingEnv {
 public:
  explicit NormalizedActions(std::unique_ptr<Env> env)
      : ForwardingEnv(std::move(env)),
        spec_(inner().spec()),
        mapped_(DType::f32, spec_.action.shape().prepended(rows())),
        low_(spec_.action.low),
        high_(spec_.action.high) {
    std::ranges::fill(spec_.action.low, -1.0f);
    std::ranges::fill(spec_.action.high, 1.0f);
  }

  const EnvSpec& spec() const override { return spec_; }
  void step(const Array& actions, EnvStep& out) override {
    TROUPE_CHECK(actions.shape() == mapped_.shape() && actions.dtype() == DType::f32, spec_.id, "actions have shape",
                 actions.shape().text(), "expected", mapped_.shape().text());
    const std::span<const float> given = actions.view<float>();
    const std::span<float> mapped = mapped_.mutable_view<float>();
    for (size_t k = 0; k < given.size(); ++k) {
      // A number that is not finite stays as it is, so that the environment fails the row.
      const size_t a = k % low_.size();
      const double share = (1.0 + std::clamp(static_cast<double>(given[k]), -1.0, 1.0)) / 2;
      mapped[k] = std::isfinite(given[k]) ? static_cast<float>(low_[a] * (1 - share) + high_[a] * share) : given[k];
    }
    inner().step(mapped_, out);
  }

 private:
  EnvSpec spec_;
  Array mapped_;                   // [N, K, A] float32
  std::vector<float> low_, high_;  // [A] of the environment
};

}  // namespace

std::unique_ptr<Env> with_normalized_actions(std::unique_ptr<Env> env) {
  if (env->spec().action.kind != ActionKind::continuous)
    throw ConfigError("env.normalize_actions: true with " + env->spec().id +
                      ", whose actions are discrete; expected false, or an environment with continuous actions");
  return std::make_unique<NormalizedActions>(std::move(env));
}

}  // namespace troupe
