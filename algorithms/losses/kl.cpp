#include "algorithms/losses/kl.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "algorithms/common/tile.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

struct Name {
  std::string_view name;
  KlKind kind;
};

// Aliases come last, so that they are suggested last.
constexpr std::array kKlNames = {Name{"k1", KlKind::k1},
                                 Name{"abs", KlKind::abs},
                                 Name{"k2", KlKind::k2},
                                 Name{"k3", KlKind::k3},
                                 Name{"low_var_kl", KlKind::low_var_kl},
                                 Name{"full", KlKind::full},
                                 Name{"kl", KlKind::k1},
                                 Name{"mse", KlKind::k2}};

constexpr float kLargestLowVar = 10.0f;  // low_var_kl is clamped to +- this (verl, github.com/volcengine/verl)

struct Term {
  float value, slope;
};

// exp(-d) + d - 1 for d clamped to +-bound, in double: near d = 0 float32 would lose all digits.
Term k3_of(float d, float bound) {
  const double x = clamp_keep_nan(-d, -bound, bound);
  const double growth = std::expm1(x);
  const bool inside = -bound <= -d && -d <= bound;
  return {static_cast<float>(growth - x), inside || std::isnan(d) ? static_cast<float>(-growth) : 0.0f};
}

Term term_of(KlKind kind, float d) {
  switch (kind) {
    case KlKind::k1: return {d, 1.0f};
    case KlKind::abs: return {std::abs(d), d > 0 ? 1.0f : d < 0 ? -1.0f : d * 0.0f};  // 0 at 0, NaN for NaN
    case KlKind::k2: return {0.5f * d * d, d};
    case KlKind::k3: return k3_of(d, kExpLimit);
    case KlKind::low_var_kl: {
      const Term term = k3_of(d, kMaxLogRatio);
      return {clamp_keep_nan(term.value, -kLargestLowVar, kLargestLowVar),
              term.value > kLargestLowVar ? 0.0f : term.slope};
    }
    case KlKind::full: break;
  }
  throw InvariantError("kl_estimate: the exact KL needs logits");
}

}  // namespace

KlEstimator find_kl(std::string_view name, std::string_view path) {
  const bool plus = name.ends_with('+');
  const std::string_view bare = plus ? name.substr(0, name.size() - 1) : name;
  const auto found = std::ranges::find(kKlNames, bare, &Name::name);
  if (found != kKlNames.end()) return {found->kind, plus};
  std::vector<std::string> names;
  std::string known;
  for (const Name& each : kKlNames) {
    names.emplace_back(each.name);
    known.append(known.empty() ? "" : ", ").append(each.name);
  }
  const std::string near = bare == "exact" ? "full" : closest(bare, names);  // metrics call its result kl_exact
  throw ConfigError(std::string(path) + ": unknown name \"" + std::string(name) + '"' +
                    (near.empty() ? "" : ", did you mean \"" + near + (plus ? "+" : "") + "\"?") + " (known: " + known +
                    ", each also with a + at the end)");
}

std::vector<std::string> kl_names() {
  std::vector<std::string> names;
  for (const Name& each : kKlNames)
    for (const char* end : {"", "+"}) names.push_back(std::string(each.name) + end);
  return names;
}

std::string canonical_kl(std::string_view name) {
  const std::string_view base = name.ends_with('+') ? name.substr(0, name.size() - 1) : name;
  const auto known = std::ranges::find(kKlNames, base, &Name::name);
  if (known == kKlNames.end()) return std::string(name);
  const auto first = std::ranges::find(kKlNames, known->kind, &Name::kind);
  return std::string(first->name) + std::string(name.substr(base.size()));
}

void kl_estimate(KlEstimator estimator, std::span<const float> log_probs, std::span<const float> reference_log_probs,
                 std::span<const uint8_t> mask, std::span<float> value, std::span<float> grad) {
  const std::size_t n = log_probs.size();
  TROUPE_CHECK(reference_log_probs.size() == n && fits_or_empty(mask, n), "log_probs", n, "reference_log_probs",
               reference_log_probs.size(), "mask", mask.size());
  TROUPE_CHECK((value.empty() || value.size() == n) && (grad.empty() || grad.size() == n), "value", value.size(),
               "grad", grad.size(), "log_probs", n);
  for (std::size_t i = 0; i < n; ++i) {
    const bool live = mask.empty() || mask[i] != 0;
    const float d = live ? log_probs[i] - reference_log_probs[i] : 0.0f;
    const Term term = term_of(estimator.kind, d);
    if (!value.empty()) value[i] = live ? term.value : 0.0f;
    if (!grad.empty()) grad[i] = !live ? 0.0f : estimator.k2_gradient ? d : term.slope;
  }
}

AdaptiveKl::AdaptiveKl(double value, double target, double horizon)
    : value_(value), target_(target), horizon_(horizon) {
  const auto want = [](bool right, const char* name, double got, const char* what) {
    if (!right)
      throw ConfigError(std::string("algorithm.kl.") + name + ": " + std::to_string(got) + ", expected " + what);
  };
  want(std::isfinite(value) && value >= 0, "value", value, "a number of at least 0");
  want(std::isfinite(target) && target > 0, "target", target, "a number above 0");
  want(std::isfinite(horizon) && horizon > 0, "horizon", horizon, "a number above 0");
}

void AdaptiveKl::update(double current, double steps) {
  constexpr double kLargestError = 0.2;
  if (!std::isfinite(current))
    throw ConfigError("algorithm.kl: current " + std::to_string(current) + ", expected a finite number");
  if (!(steps >= 0 && kLargestError * steps < horizon_))
    throw ConfigError("algorithm.kl: " + std::to_string(steps) + " steps at horizon " + std::to_string(horizon_) +
                      ", expected at least 0 and less than 5 times the horizon");
  const double error = std::clamp(current / target_ - 1.0, -kLargestError, kLargestError);
  value_ *= 1.0 + error * steps / horizon_;
}

}  // namespace troupe
