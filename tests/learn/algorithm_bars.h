#pragma once
// The scores that the runs of configs/algorithms/ have to reach.

#include <map>
#include <string>

namespace troupe::test {

struct AlgorithmBar {
  const char* score;
  double least;
};

// The score that every seed must reach; the measured scores are in docs/results.md.
inline const std::map<std::string, AlgorithmBar>& algorithm_bars() {
  static const std::map<std::string, AlgorithmBar> table = {
      {"advantage_dr_grpo", {"return_mean", 400}},
      {"advantage_gae", {"return_mean", 475}},
      {"advantage_gpg", {"return_mean", 400}},
      {"advantage_grpo", {"return_mean", 400}},
      {"advantage_grpo_passk", {"return_mean", 400}},
      {"advantage_grpo_vectorized", {"return_mean", 400}},
      {"advantage_opo", {"return_mean", 400}},
      {"advantage_optimal_token_baseline", {"success_rate", 0.4}},
      {"advantage_reinforce_plus_plus", {"return_mean", 400}},
      {"advantage_reinforce_plus_plus_baseline", {"return_mean", 400}},
      {"advantage_remax", {"return_mean", 400}},
      {"advantage_rloo", {"return_mean", 400}},
      {"advantage_tir_optimal_token_baseline", {"success_rate", 0.4}},
      {"advantage_vtrace", {"return_mean", 475}},
      {"surrogate_ce_gppo", {"return_mean", 475}},
      {"surrogate_cispo", {"return_mean", 475}},
      {"surrogate_clip", {"return_mean", 475}},
      {"surrogate_clip_cov", {"return_mean", 475}},
      {"surrogate_dual_clip", {"return_mean", 475}},
      {"surrogate_geo_mean", {"success_rate", 0.4}},
      {"surrogate_gipo", {"return_mean", 475}},
      {"surrogate_gpg", {"return_mean", 400}},
      {"surrogate_gspo", {"success_rate", 0.4}},
      {"surrogate_kl_cov", {"return_mean", 475}},
      {"surrogate_none", {"return_mean", 400}},
      {"surrogate_reinforce", {"return_mean", 400}},
      {"surrogate_sapo", {"return_mean", 475}},
      {"surrogate_soft_clip", {"return_mean", 475}},
  };
  return table;
}

}  // namespace troupe::test
