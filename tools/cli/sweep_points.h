#pragma once
// The combinations of settings that `troupe sweep` trains. Pure functions; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/flags.h"

namespace troupe {

// Limits of a setting that is drawn.
struct SweptRange {
  double low = 0, high = 0;
  bool whole = false;  // both are written as whole numbers, so whole numbers are drawn
};

// A setting with more than one value.
struct SweptSetting {
  std::string path;
  Words values;  // as --set takes them; empty for a range
  std::optional<SweptRange> range;
};

struct SweptSettings {
  std::vector<SweptSetting> swept;
  Words fixed;  // path=value, the same in all runs
};

// From the values of --set: "path=[a, b]" is swept, and so is "path=low..high" where settings are drawn. Throws
// ConfigError, which begins with --set.
SweptSettings parse_swept(const Words& settings, bool random);

// The value of each swept setting, in their order.
using SweepPoint = Words;

// All combinations; the last setting changes first. One without values where nothing is swept.
std::vector<SweepPoint> grid_of(const std::vector<SweptSetting>& swept);

// `count` different combinations, fewer where there are not as many: values of lists and whole numbers are equally
// likely, numbers between limits above 0 are log-uniform, with 3 digits. The same arguments give the same points, and a
// larger count the same first ones.
std::vector<SweepPoint> random_points(const std::vector<SweptSetting>& swept, size_t count, uint64_t seed);

// "policy_lr=0.0001_seed=1": the name of the folder of a run, the same whatever else is swept.
std::string run_name_of(const std::vector<SweptSetting>& swept, const SweepPoint& point, uint64_t seed);
// The text with "-" in place of what such a name does not have.
std::string in_folder_name(std::string text);

}  // namespace troupe
