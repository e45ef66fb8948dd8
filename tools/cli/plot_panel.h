#pragma once
// What a plot shows, whatever draws it, and the ticks of its axes. Pure; any thread.

#include <string>
#include <vector>

#include "tools/cli/run_curves.h"

namespace troupe {

struct PlotPanel {
  std::string x_label, y_label;
  std::vector<GroupCurve> curves;  // none is empty
};

// From the smallest to the largest x and mean of the curves; wider by 1 where these are the same.
struct PlotRange {
  double left, right, bottom, top;
};
PlotRange range_of(const PlotPanel& panel);

// Round numbers between the limits, about `count` of them.
std::vector<double> ticks_between(double low, double high, int count);
// "250k" or "-0.05": a tick as text, with as many decimals as the distance between ticks needs.
std::string tick_text(double tick, double distance);

}  // namespace troupe
