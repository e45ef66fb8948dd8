#pragma once
// The parts of the picture of `troupe top`: a panel for each view. Pure functions; any thread.

#include <vector>

#include "tools/top/frame.h"

namespace troupe {

// Each has at most `size.height` lines, the most important first. What they show is not cut to the width yet.
std::vector<FrameLine> learning_panel(const TopModel& model, const FrameSize& size);
std::vector<FrameLine> flow_panel(const TopModel& model, const FrameSize& size);
std::vector<FrameLine> machines_panel(const TopModel& model, const FrameSize& size);
std::vector<FrameLine> events_panel(const TopModel& model, const FrameSize& size);
std::vector<FrameLine> help_panel(const FrameSize& size);

// Exactly `width` columns: cut, or with spaces at its end. Control characters become "?", with `ascii` all others that
// are not ASCII too.
std::string in_columns(std::string_view text, size_t width, bool ascii);

}  // namespace troupe
