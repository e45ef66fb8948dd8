#pragma once
// What a run shows on the console: on a terminal a block that is drawn over itself, elsewhere one line per report. Pure
// functions from a snapshot to text; any thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/text_format.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

// What a line of the block is about.
enum class ConsolePart : uint8_t { head, alarms, verdict, samples, flow, result, learning };

struct ConsoleLine {
  ConsolePart part;
  int rank;  // where there is no room for all lines, those with the highest rank are left out
  std::string text;
};

// All lines that have something to say, in the order of the block. Only the first is made to fit `width`.
std::vector<ConsoleLine> console_lines(const std::string& run, const StatsSnapshot& snapshot, size_t width);

// The block for a terminal, of at most `height` lines (at least one) and `width` columns. With 80 columns or more, no
// figure is cut; only names, errors and the reason for the bottleneck may be. If `height` is too small, the least
// important lines are left out.
std::vector<std::string> console_block(const std::string& run, const StatsSnapshot& snapshot, size_t width,
                                       size_t height = SIZE_MAX);

// The bytes that draw `lines` over the previous block, which has `lines_before` lines (0: there is none) and ends at
// the cursor.
std::string console_redraw(const std::vector<std::string>& lines, size_t lines_before);

// The whole report in one line of fewer than `columns` columns, for logs and pipes. The elapsed time is always in it.
// With kLineColumns so are steps, steps per second, updates, return, bottleneck, workers, lag and dropped samples,
// unless an evaluation is under way. Where there is no room for the rest, the least important items are left out.
// Numbers below ten million are abbreviated only where failures and lost samples would be left out otherwise. With
// fewer columns, numbers are abbreviated and the line has the most important items that fit; with more, it has all of
// them, and the names of the alarms.
constexpr size_t kLineColumns = 160;
std::string console_line(const StatsSnapshot& snapshot, size_t columns = kLineColumns);

}  // namespace troupe
