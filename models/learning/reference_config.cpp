#include "models/learning/reference_config.h"

#include "runtime/base/errors.h"

namespace troupe {
namespace {

constexpr Need kWithReference = {.condition = is("reference.model", kWords<"start">)};
constexpr Need kAdaptive = {.condition = is("reference.kl_controller", kWords<"adaptive">)};

}  // namespace

void describe(ReferenceConfig& c, Fields& fields) {
  const Section s(fields, "reference", "models/learning", Change::never, {kOnlyTokenRuns});
  s.add(c.model, "model", one_of(kWords<"none", "start">),
        "the frozen policy that the trained one is kept close to: none, or start, the weights with which "
        "training starts, after the warm-up",
        {.elsewhere = kWords<"ref_model">});
  s.add(c.computed_by, "computed_by", one_of(kWords<"trainer", "scorers">),
        "trainer: at the start of each update; scorers: before answers reach replay, by scorers.count actors and by "
        "processes of troupe scorer",
        {.needs = {kWithReference}});
  s.add(c.place, "in", one_of(kWords<"reward", "loss">),
        "where KL(policy || reference) counts: reward, subtracted from the reward of each token; loss, added to the "
        "loss",
        {.needs = {kWithReference}});
  s.add(c.kl, "kl", matching("^[A-Za-z0-9_+-]{1,60}$", "a name like k3"),
        "its estimate, as in algorithm.kl; auto: k1 in the reward, k3 in the loss; full: exact, only in the loss",
        {.elsewhere = kWords<"kl_estimator", "kl_loss_type">, .needs = {kWithReference}});
  s.add(c.kl_coef, "kl_coef", between(0, 1e6), "its weight; 0 = it is measured alone",
        {.elsewhere = kWords<"beta", "init_kl_coef", "kl_loss_coef", "kl_ctl">, .needs = {kWithReference}});
  s.add(c.kl_controller, "kl_controller", one_of(kWords<"fixed", "adaptive">),
        "fixed: kl_coef is constant; adaptive: it rises while the measured KL is above kl_target and falls while it is "
        "below",
        {.needs = {kWithReference}});
  s.add(c.kl_target, "kl_target", above(0, 1e6), "target of the KL, per token", {.needs = {kWithReference, kAdaptive}});
  s.add(c.kl_horizon, "kl_horizon", above(0, 1e15), "answers over which kl_coef changes by at most a fifth",
        {.needs = {kWithReference, kAdaptive}});
}

KlEstimator reference_kl(const ReferenceConfig& config) {
  const std::string path = "reference.kl";
  if (config.kl == "auto") return {config.in_reward() ? KlKind::k1 : KlKind::k3, false};
  const KlEstimator result = find_kl(config.kl, path);
  if (config.by_scorers() && result.kind == KlKind::full)
    throw ConfigError(path + ": \"" + config.kl +
                      "\" cannot be used with reference.computed_by \"scorers\", which send the probabilities of "
                      "sampled tokens alone; use \"k3\", or set reference.computed_by to \"trainer\"");
  if (!config.in_reward()) return result;
  if (result.kind == KlKind::full)
    throw ConfigError(path + ": \"" + config.kl +
                      "\" cannot be used with reference.in \"reward\", where only the probabilities of sampled tokens "
                      "count; use \"k1\", or set reference.in to \"loss\"");
  if (result.k2_gradient)
    throw ConfigError(path + ": \"" + config.kl +
                      "\" has a gradient of its own, which reference.in \"reward\" does not " + "use; use \"" +
                      config.kl.substr(0, config.kl.size() - 1) + "\", or set reference.in to \"loss\"");
  return result;
}

}  // namespace troupe
