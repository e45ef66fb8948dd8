#pragma once
// Texts of `troupe top` that may be longer than a line, and what it says of alarms. Pure functions; any thread. Nothing
// is cut to the width of the picture.

#include <map>
#include <string>
#include <vector>

#include "tools/top/frame.h"

namespace troupe {

// The text after `head`; what has no room in the first line follows below the text's beginning, with size.broken.
std::vector<FrameLine> text_lines(const std::string& head, Look head_look, const std::string& text, Look look,
                                  const FrameSize& size);

// The names of alarms, errors first: "return_collapse (error), entropy_dead".
std::string alarm_names(const std::map<std::string, Alarm>& alarms);

// Of a run that trains no more, "1 error, 3 warnings during the run; raised at the end: ...; over before: ...". Empty
// if it had none.
std::string past_alarms(const TopModel& model);

// The alarms that the newest report has, errors first, with what was measured and what to do.
std::vector<FrameLine> alarm_lines(const TopModel& model, const FrameSize& size);

}  // namespace troupe
