#pragma once
// The flags of `troupe plot`. Main thread.

#include <optional>
#include <string>
#include <string_view>

#include "tools/cli/flags.h"
#include "tools/cli/gnuplot_picture.h"
#include "tools/cli/plot_axis.h"

namespace troupe {

// An axis that --x names.
struct PlotAxis {
  std::string_view name, figure, label;
};

struct PictureEnding {
  std::string_view ending;
  PictureKind kind;
  std::string_view begins;  // such a file
};

struct PlotOptions {
  Words runs;
  std::string output, x = "env_steps", title, x_limits, y_limits;
  Words y, group, y_labels, log;
};

// Declares and reads the flags, and checks what they say together. Throws ConfigError.
PlotOptions read_plot(Flags& flags);

// That of --x.
const PlotAxis& axis_of(const PlotOptions& options);
// What --log and the limits say of the axis "x" or "y".
AxisScale scale_of(const PlotOptions& options, std::string_view axis);
// By the end of the name of a picture; null for another name.
const PictureEnding* ending_of(const std::string& file);

}  // namespace troupe
