#include "models/learning/update_metrics.h"

namespace troupe {

void describe_epoch(const EpochReport& epoch, const AlgorithmChoice& choice,
                    std::map<std::string, double>& metrics) {
  if (epoch.steps == 0) return;
  metrics["policy_loss"] = epoch.loss.policy_loss;
  metrics["value_loss"] = epoch.loss.value_loss;
  if (choice.value_loss.clip > 0) metrics["value_clip_fraction"] = epoch.loss.value_clip_fraction;
  metrics["entropy"] = epoch.loss.entropy;
  const SurrogateDiagnostics& diagnostics = epoch.loss.diagnostics;
  metrics["kl"] = diagnostics.kl_k3;
  metrics["kl_k1"] = diagnostics.kl_k1;
  metrics["kl_k2"] = diagnostics.kl_k2;
  metrics["clip_fraction"] = diagnostics.clip_fraction;
  metrics["clip_fraction_lower"] = diagnostics.clip_fraction_lower;
  metrics["outside_fraction"] = diagnostics.outside_fraction;
  metrics["dead_gradient_fraction"] = diagnostics.dead_gradient_fraction;
  if (choice.surrogate.entry->name == "sapo") metrics["saturated_fraction"] = diagnostics.saturated_fraction;
  metrics["ess"] = diagnostics.ess;
  metrics["ess_clamped"] = diagnostics.ess_clamped;
  metrics["ratio_mean"] = diagnostics.ratio_mean;
  metrics["ratio_max"] = diagnostics.ratio_max;
  metrics["ratio_min"] = diagnostics.ratio_min;
  metrics["grad_norm"] = epoch.grad_norm_sum / static_cast<double>(epoch.steps);
}

}  // namespace troupe
