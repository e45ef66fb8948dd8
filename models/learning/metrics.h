#pragma once
// The one table of what an update reports: name, unit, meaning, when it is reported, how several updates become one
// figure, and where the value comes from. A new metric is one entry in metrics.cpp. Plain functions; any thread.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "algorithms/choice/algorithm_choice.h"
#include "algorithms/common/moments.h"
#include "algorithms/losses/rollout_correction.h"
#include "models/learning/balance_figures.h"
#include "models/learning/lag_figures.h"
#include "models/learning/loss_report.h"
#include "models/learning/update_settings.h"
#include "runtime/stats/figure_view.h"

namespace troupe {

struct EpochReport {
  LossReport loss;  // means over steps
  double grad_norm_sum = 0.0;
  uint64_t steps = 0;
  uint64_t skipped = 0;
};

struct ReferenceFigures {
  double kl = 0.0;    // mean over tokens
  double coef = 0.0;  // in use
};

// Of the answers of a super-batch.
struct BatchAnswers {
  struct Range {
    double mean = 0.0, least = 0.0, most = 0.0;
  };

  double tokens = 0.0;                 // that have a loss
  Range length;                        // tokens
  Range prompt_length;                 // tokens, of the prompts
  Range reward;                        // before the clip, without penalties
  double cut = 0.0;                    // share of the answers that were cut at the largest length
  double masked = 0.0;                 // share of the tokens without loss
  std::optional<double> penalty = {};  // mean over answers of what is added to their scores for their length
  // Of the tokens that have a loss, before whitening; nothing without such a token.
  std::optional<double> least_advantage = {}, most_advantage = {};
};

// Of the advantages and value targets of a super-batch.
struct TargetFigures {
  Moments advantages;  // before whitening
  Moments returns;
  double explained_variance = 0.0;
  // Where the algorithm corrects for the distance from the behaviour policy.
  std::optional<OffPolicyMetrics> correction;
  // With a reference.
  std::optional<ReferenceFigures> reference = {};
  std::optional<BatchAnswers> answers = {};  // in token runs
  std::optional<double> drawn = {};          // with policy filtration: share of the answers that were drawn
};

// Everything that the metrics of one update are computed from.
struct UpdateFigures {
  const AlgorithmChoice& choice;
  const UpdateSettings& settings;
  const EpochReport& epoch;                     // the last one that is not of the value function alone
  const std::optional<TargetFigures>& targets;  // nothing without samples to train on
  uint64_t skipped = 0;                         // optimizer steps, over all epochs
  std::span<const float> log_std;               // [D]; empty unless actions are continuous
  bool penalizes_kl = false;
  bool critic = true;                          // the learner has a value function
  std::optional<BalanceFigures> balance = {};  // in token runs
  std::optional<LagFigures> lag = {};          // in token runs
};

// How the values of several updates become one figure. Values that are not finite are left out, except by `last`. An
// update without the figure counts as 0 in a `share`, and not at all in the others.
enum class Summary : uint8_t { mean, share, last, sum, smallest, largest };

struct Metric {
  std::string_view group;  // of metrics that follow each other; the heading in docs/metrics.md
  std::string_view name;
  std::string_view unit;
  Summary summary;
  std::string_view when;  // it is reported: "always", or with which settings
  std::string_view meaning;
  std::optional<double> (*value)(const UpdateFigures&);  // nothing where an update has no such figure
  FigureView view = {};                                  // how views show it
};

// docs/metrics.md is generated from it.
std::span<const Metric> metric_table();
// The metrics that this update has.
std::map<std::string, double> metrics_of(const UpdateFigures& figures);
// How the metric called `name` is summarised; by its mean if the name is not in the table.
Summary summary_of(std::string_view name);

}  // namespace troupe
