#include "models/learning/lag_metrics.h"

#include <deque>
#include <string>
#include <utility>

namespace troupe {

namespace {

using Value = std::optional<double>;
using Figures = UpdateFigures;

constexpr std::string_view kLagShare = "0 to 1", kLagNats = "nats", kLagNumber = "number";
constexpr std::string_view kWithTokens = "with such tokens", kInTokenRuns = "in token runs with such tokens";

// The text, which lasts as long as the program.
std::string_view kept(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text));
}

// What a figure has in common at all lags.
struct LagMetric {
  std::string_view group, when;
  std::string name;
  std::string_view unit;
  Summary summary;
  std::string meaning;
};

Metric of_lag(const LagMetric& metric, size_t lag, Value (*value)(const Figures&)) {
  const std::string number = std::to_string(lag), more = lag + 1 == kLagClasses ? " or more" : "";
  return {metric.group, kept(metric.name + "_lag_" + number),
          metric.unit,  metric.summary,
          metric.when,  kept(metric.meaning + " of tokens with lag " + number + more),
          value};
}

template <class Read, size_t... lags>
void add(std::vector<Metric>& to, const LagMetric& metric, std::index_sequence<lags...> /*all*/) {
  (to.push_back(of_lag(metric, lags, [](const Figures& f) { return Read::of(f, lags); })), ...);
}
// Adds a figure, which Read::of() reads, of each lag.
template <class Read>
void add(std::vector<Metric>& to, const LagMetric& metric) {
  add<Read>(to, metric, std::make_index_sequence<kLagClasses>());
}

double all_tokens(const Figures& f) {
  double sum = 0;
  for (const ClassDiagnostics& of : f.epoch.loss.lag_diagnostics) sum += of.count;
  return sum;
}

template <double ClassDiagnostics::* member>
struct OfLoss {
  static Value of(const Figures& f, size_t lag) {
    const ClassDiagnostics& figures = f.epoch.loss.lag_diagnostics[lag];
    return figures.count > 0 ? Value(figures.*member) : Value();
  }
};
struct ShareOfLoss {
  static Value of(const Figures& f, size_t lag) {
    const Value count = OfLoss<&ClassDiagnostics::count>::of(f, lag);
    return count ? Value(*count / all_tokens(f)) : Value();
  }
};
template <double PolicyDistance::* member>
struct OfRollout {
  static Value of(const Figures& f, size_t lag) {
    return f.lag && f.lag->by_lag[lag].tokens > 0 ? Value(f.lag->by_lag[lag].*member) : Value();
  }
};
struct ShareOfRollout {
  static Value of(const Figures& f, size_t lag) {
    return f.lag && f.lag->of_batch.share[lag] > 0 ? Value(f.lag->of_batch.share[lag]) : Value();
  }
};

}  // namespace

std::vector<Metric> loss_metrics_by_lag() {
  std::vector<Metric> result;
  const auto metric = [](const char* name, std::string_view unit, const char* meaning,
                         Summary summary = Summary::mean) {
    return LagMetric{kLossesByLag, kWithTokens, name, unit, summary, meaning};
  };
  add<ShareOfLoss>(result, metric("share", kLagShare, "share, among those whose loss was computed,", Summary::share));
  add<OfLoss<&ClassDiagnostics::kl>>(result, metric("kl", kLagNats, "kl"));
  add<OfLoss<&ClassDiagnostics::clip_fraction>>(result, metric("clip_fraction", kLagShare, "clip_fraction"));
  add<OfLoss<&ClassDiagnostics::dead_gradient_fraction>>(
      result, metric("dead_gradient_fraction", kLagShare, "dead_gradient_fraction"));
  add<OfLoss<&ClassDiagnostics::ess>>(result, metric("ess", kLagShare, "ess"));
  return result;
}

std::vector<Metric> rollout_metrics_by_lag(std::string_view group) {
  std::vector<Metric> result;
  const auto metric = [group](const char* name, std::string_view unit, Summary summary, const char* meaning) {
    return LagMetric{group, kInTokenRuns, name, unit, summary, meaning};
  };
  using Distance = PolicyDistance;
  add<ShareOfRollout>(result, metric("rollout_share", kLagShare, Summary::share,
                                     "share, among all of the super-batch that have a loss,"));
  add<OfRollout<&Distance::kl>>(result, metric("rollout_kl", kLagNats, Summary::mean, "rollout_kl"));
  add<OfRollout<&Distance::ratio_mean>>(result,
                                        metric("rollout_ratio_mean", kLagNumber, Summary::mean, "rollout_ratio_mean"));
  add<OfRollout<&Distance::ratio_max>>(result,
                                       metric("rollout_ratio_max", kLagNumber, Summary::largest, "rollout_ratio_max"));
  add<OfRollout<&Distance::ratio_min>>(result,
                                       metric("rollout_ratio_min", kLagNumber, Summary::smallest, "rollout_ratio_min"));
  return result;
}

}  // namespace troupe
