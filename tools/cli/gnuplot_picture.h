#pragma once
// Pictures of plots, drawn by the program gnuplot. One thread at a time; blocks until it has ended.

#include <cstdint>
#include <span>
#include <string>

#include "tools/cli/plot_panel.h"

namespace troupe {

enum class PictureKind : uint8_t { svg, png, pdf };

// What gnuplot reads to draw the panels, one below the other, into `output`.
std::string gnuplot_script(std::span<const PlotPanel> panels, PictureKind kind, const std::string& output);

// The bytes of the picture: the same for the same panels, by the same gnuplot. Throws ConfigError when gnuplot is
// missing or fails.
std::string gnuplot_picture(std::span<const PlotPanel> panels, PictureKind kind);

}  // namespace troupe
