#pragma once
// What a plot shows, whatever draws it. Pure; any thread.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/plot_axis.h"
#include "tools/cli/run_curves.h"

namespace troupe {

struct PlotPanel {
  std::string x_label, y_label;
  std::vector<GroupCurve> curves;  // none is empty
  bool categories = false;         // each curve is one point: the x of the first is 0, that of the next 1, and so on
  std::string title = {};          // above a picture
  std::string note = {};           // below the curves, after the notes on intervals
  AxisScale x = {}, y = {};
};

// How the curves of several runs were computed; empty if no curve has several runs.
std::string interval_note(const PlotPanel& panel);
// That intervals of so few runs are too narrow; empty where they are not.
std::string rough_note(const PlotPanel& panel);

// The name of each curve at the x axis of categories: its label, without the setting that all labels begin with.
std::vector<std::string> category_names(const PlotPanel& panel);
// The setting that all labels begin with, else "groups".
std::string category_axis(const PlotPanel& panel);

// From the smallest to the largest x and mean of the curves, and interval of points, on a logarithmic axis of those
// above 0; wider where these are the same. Limits that are given take their place. Categories have half a place on both
// sides.
struct PlotRange {
  double left, right, bottom, top;
  bool log_x = false, log_y = false;
};
PlotRange range_of(const PlotPanel& panel);

}  // namespace troupe
