#pragma once
// What a run shows on the console: on a terminal a block that is drawn over itself, elsewhere one line per report. Pure
// functions from a snapshot to text; any thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/stats_snapshot.h"

namespace troupe {

// What limits the run now and what that rests on, in one line: "sampling (the trainer waits 63 % of the time)".
std::string bottleneck(const StatsSnapshot& snapshot);

// The block for a terminal of `width` columns; no line is wider. 80 columns hold all of it, whatever the figures are; only names
// and what the bottleneck rests on may be cut.
std::vector<std::string> console_block(const std::string& run, const StatsSnapshot& snapshot, size_t width);

// The bytes that draw `lines` over a block of `lines_before` lines whose end is where the cursor is; 0 for the first block.
std::string console_redraw(const std::vector<std::string>& lines, size_t lines_before);

// The whole report in one line of fewer than kLineColumns columns, for logs and pipes. Extreme figures leave out the last parts.
std::string console_line(const StatsSnapshot& snapshot);
constexpr size_t kLineColumns = 160;

// Columns that UTF-8 text takes on a terminal. East Asian wide characters and emoji take two.
size_t display_width(std::string_view text);

// "1,234,567"; "-" for unknown; "1:02:03" or "0:42"; "182 MB".
std::string format_count(uint64_t value);
// As format_count() below ten million, then "12.3M", "4.56G": at most 9 characters.
std::string format_short(uint64_t value);
std::string format_number(double value, int decimals);
std::string format_seconds(double seconds);
std::string format_bytes(uint64_t bytes);

}  // namespace troupe
