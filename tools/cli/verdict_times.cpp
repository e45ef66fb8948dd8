#include "tools/cli/verdict_times.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/text_format.h"
#include "runtime/stats/verdict.h"

namespace troupe {

namespace {

bool names_nothing(std::string_view name) {
  return name == name_of(Resource::unknown) || name == name_of(Resource::none);
}

}  // namespace

void VerdictTimes::add(const StatsSnapshot& report) {
  if (report.elapsed_seconds <= reported_) return;
  const double seconds = report.elapsed_seconds - std::exchange(reported_, report.elapsed_seconds);
  if (report.training_ended || report.warmup || !(seconds > 0)) return;
  const Bottleneck verdict = report.told_bottleneck.value_or(Bottleneck{});
  const std::string name(name_of(verdict.resource));
  seconds_[name] += seconds;
  told_[name] = verdict;
}

std::map<std::string, double> VerdictTimes::shares() const {
  double all = 0;
  for (const auto& [name, seconds] : seconds_) all += seconds;
  std::map<std::string, double> result = seconds_;
  for (auto& [name, share] : result) share /= all;
  return result;
}

std::vector<VerdictTimes::Verdict> VerdictTimes::longest() const {
  constexpr double kLeast = 0.05;
  std::vector<Verdict> result;
  for (const auto& [name, share] : shares())
    if (share >= kLeast && !names_nothing(name)) result.push_back({told_.at(name), share});
  std::ranges::stable_sort(result, std::greater(), &Verdict::share);
  return result;
}

std::string VerdictTimes::text() const {
  constexpr size_t kNamed = 2;
  const std::vector<Verdict> verdicts = longest();
  std::string text;
  for (size_t i = 0; i < std::min(verdicts.size(), kNamed); ++i)
    text += (i == 0 ? "" : ", ") + verdicts[i].told.what + ' ' + format_percent(verdicts[i].share) +
            (i == 0 ? " of the time" : "");
  const bool advises = !verdicts.empty() && !verdicts[0].told.advice.empty();
  return advises ? text + "; " + verdicts[0].told.advice : text;
}

}  // namespace troupe
