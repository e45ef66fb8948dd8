#pragma once
// How curves of several runs become one: the interquartile mean with an interval from bootstrap resamples, as in
// Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS 2021) and its library
// rliable. Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

// The mean of the values without the floor(n / 4) smallest and the floor(n / 4) largest ones, as
// scipy.stats.trim_mean(values, 0.25). NaN without values.
double interquartile_mean(std::span<const double> values);

// Runs drawn with replacement, many times: how often each run is in each resample.
class Resamples {
 public:
  // `stratum_of` is the stratum of each run; each resample has as many runs of a stratum as there are. The same
  // arguments give the same resamples.
  Resamples(std::span<const size_t> stratum_of, size_t count, uint64_t seed);

  size_t count() const { return runs_ == 0 ? 0 : times_.size() / runs_; }
  // [runs]
  std::span<const uint32_t> operator[](size_t resample) const {
    return std::span(times_).subspan(resample * runs_, runs_);
  }

 private:
  size_t runs_;
  std::vector<uint32_t> times_;  // [count, runs]
};

// How many resamples the comparisons of runs draw, from which seed.
inline constexpr size_t kResamples = 2000;
inline constexpr uint64_t kResampleSeed = 0;
// Fewer runs than these make a rough interval.
inline constexpr size_t kFirmRuns = 5;

struct BootstrapInterval {
  double low = 0, high = 0;
};

// The interval that holds the share `size` of the interquartile means of the resamples, the same share missing on both
// sides (the percentile bootstrap). `values` are those of the runs; at least one.
BootstrapInterval bootstrap_interval(std::span<const double> values, const Resamples& resamples, double size = 0.95);

// The value at a share of the sorted values, interpolated between neighbours as numpy.percentile does.
double percentile(std::span<const double> sorted, double share);

}  // namespace troupe
