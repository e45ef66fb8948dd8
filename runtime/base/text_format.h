#pragma once
// Numbers and names as text for people, of known width. Pure functions; any thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Columns that UTF-8 text takes on a terminal. East Asian wide characters and emoji take two.
size_t display_width(std::string_view text);
// At most `width` columns of `line`, cut between characters. Control characters and bytes that are not UTF-8 become
// "?".
std::string fitted(std::string_view line, size_t width);
// The same with its beginning and its end, and ".." between them: "policy_..seed=1".
std::string fitted_middle(std::string_view line, size_t width);
// The same text in lines of at most `width` columns, cut between words where that is possible; one empty line of none.
std::vector<std::string> wrapped(std::string_view line, size_t width);

// "1,234,567"; "-" for unknown; "1:02:03" or "0:42"; "182 MB".
std::string format_count(uint64_t value);
// "1 update", "5,120 updates".
std::string format_counted(uint64_t count, std::string_view noun);
// 16 hexadecimal digits.
std::string format_hash(uint64_t hash);
std::string format_number(double value, int decimals);
std::string format_seconds(double seconds);
std::string format_bytes(uint64_t bytes);
// "63 %", at most 5 characters; "-" for unknown. What is less than the whole is at most "99 %".
std::string format_percent(double fraction);

// "999", "1.23k", "45.6M", "7G": at most 5 characters.
std::string format_compact(uint64_t value);
// As format_count() below ten million, else as format_compact(): at most 9 characters.
std::string format_short(uint64_t value);
// "1 update", "12.3M updates".
std::string format_short_counted(uint64_t count, std::string_view noun);
// As format_number() below 99,999, else as format_compact_figure(): with at most 2 decimals at most 9 characters.
std::string format_figure(double value, int decimals);
// "421.3", "-1.23M", "1e+300"; "-" for unknown: at most 7 characters.
std::string format_compact_figure(double value);

}  // namespace troupe
