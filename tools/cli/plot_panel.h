#pragma once
// What a plot shows, whatever draws it, and the ticks of its axes. Pure; any thread.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/run_curves.h"

namespace troupe {

struct PlotPanel {
  std::string x_label, y_label;
  std::vector<GroupCurve> curves;  // none is empty
  bool categories = false;         // each curve is one point: the x of the first is 0, that of the next 1, and so on
  std::string title = {};          // above a picture
  std::string note = {};           // below the curves, after the notes on intervals
};

// How the curves of several runs were computed, in one or two lines; empty if no curve has several runs.
std::vector<std::string> interval_notes(const PlotPanel& panel);

// The name of each curve at the x axis of categories: its label, without the setting that all labels begin with.
std::vector<std::string> category_names(const PlotPanel& panel);
// The setting that all labels begin with, else "groups".
std::string category_axis(const PlotPanel& panel);

// From the smallest to the largest x and mean of the curves, and interval of points; wider by 1 where these are the
// same. Categories have half a place on both sides.
struct PlotRange {
  double left, right, bottom, top;
};
PlotRange range_of(const PlotPanel& panel);

// Round numbers between the limits, about `count` of them.
std::vector<double> ticks_between(double low, double high, int count);
// "250k" or "-0.05": a tick as text, with as many decimals as the distance between ticks needs.
std::string tick_text(double tick, double distance);

}  // namespace troupe
