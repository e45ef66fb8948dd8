#include "runtime/run_folder/record_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace troupe {

RecordPlace record_place(double env_steps, double updates, const RecordPlace& other) {
  return {std::isfinite(env_steps) ? env_steps : other.env_steps, std::isfinite(updates) ? updates : other.updates};
}

bool scan_record(std::string_view line, RecordPlace& place, const OnScalar& on_scalar) {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  double env_steps = kMissing, updates = kMissing;
  const bool whole = scan_json(line, [&](std::string_view path, std::string_view text) {
    if (path == "env_steps") env_steps = scalar_number(text).value_or(kMissing);
    if (path == "updates") updates = scalar_number(text).value_or(kMissing);
    on_scalar(path, text);
  });
  if (whole) place = record_place(env_steps, updates, place);
  return whole;
}

size_t records_before(std::span<const RecordPlace> ordered, const RecordPlace& place) {
  return static_cast<size_t>(std::upper_bound(ordered.begin(), ordered.end(), place) - ordered.begin());
}

std::vector<size_t> in_order(std::span<const RecordPlace> places) {
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return places[a] < places[b]; });
  return order;
}

}  // namespace troupe
