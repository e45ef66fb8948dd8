#pragma once
// Mean and variance in double precision, and whitening of advantages with them. Pure functions; any thread.

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

// Count, mean and sum of squared deviations of a stream. A plain value. Merging in a different order changes the result
// only by rounding.
struct Moments {
  double count = 0;
  double mean = 0;
  double m2 = 0;

  // Adds one number (Welford 1962, doi:10.1080/00401706.1962.10490022).
  void add(double x);
  // Adds another stream (Chan, Golub, LeVeque 1979, Stanford report STAN-CS-79-773).
  void merge(const Moments& other);
  // Population variance m2 / n, or m2 / (n - 1) when unbiased; 0 with fewer than 1 (or 2) numbers.
  double variance(bool unbiased = false) const;
  double stddev(bool unbiased = false) const;
};

// Moments of the unmasked elements, in two passes. x [n]; mask [n], or empty = all.
Moments masked_moments(std::span<const float> x, std::span<const uint8_t> mask);

// How to keep the divisor away from 0; e is WhitenParams::epsilon.
enum class WhitenGuard : uint8_t {
  add_to_std = 0,       // sqrt(max(var, 1e-12)) + e
  add_to_variance = 1,  // sqrt(var + e)
  floor_variance = 2,   // sqrt(max(var, e))
};

struct WhitenParams {
  bool unbiased = false;    // divide by n - 1
  bool shift_mean = true;   // false: the mean is added back
  bool scale = true;        // false: only centre
  bool zero_masked = true;  // false: masked elements are transformed like the others
  WhitenGuard guard = WhitenGuard::add_to_std;
  double epsilon = 1e-8;
  bool strict = false;  // true: fewer than two unmasked elements are an error, as in verl (below)
};

// The whitening of another code base: verl (github.com/volcengine/verl), slime (github.com/THUDM/slime), openrlhf
// (github.com/OpenRLHF/OpenRLHF), accerl (arXiv:2603.18464), lm_human_preferences
// (github.com/openai/lm-human-preferences). Throws ConfigError with the nearest known name.
WhitenParams find_whiten_variant(std::string_view name, std::string_view path = "whiten variant");

// Whitens x [n] in place with its own moments under `mask` ([n], or empty = all). Without unmasked elements the result
// is all zeros. A single one is only centered (the result is 0). A NaN among the unmasked elements makes all of them
// NaN. With `strict`, fewer than two throw ConfigError.
void whiten(std::span<float> x, std::span<const uint8_t> mask, const WhitenParams& params = {});
// The same with given moments, for example merged over the parts of a batch or over trainers.
void whiten(std::span<float> x, std::span<const uint8_t> mask, const Moments& moments, const WhitenParams& params = {});

}  // namespace troupe
