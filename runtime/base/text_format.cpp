#include "runtime/base/text_format.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <utility>

namespace troupe {

namespace {

// One character of UTF-8 text and the columns it takes. Invalid bytes and control characters become "?".
struct Glyph {
  std::string bytes;
  size_t columns = 1;
};

bool is_wide(uint32_t code) {
  constexpr std::pair<uint32_t, uint32_t> kWide[] = {
      {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23F3},   {0x25FD, 0x27FF},  {0x2B1B, 0x2BFF}, {0x2E80, 0xA4CF},
      {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE10, 0xFE6F},  {0xFF00, 0xFF60}, {0xFFE0, 0xFFE6},
      {0x16FE0, 0x18DFF}, {0x1AFF0, 0x1B2FF}, {0x1F000, 0x1FAFF}, {0x20000, 0x3FFFD}};
  return std::ranges::any_of(kWide, [&](const auto& range) { return range.first <= code && code <= range.second; });
}

Glyph take_glyph(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  uint32_t code = length == 0 ? 0 : length == 1 ? lead : lead & (0x7Fu >> length);
  bool whole = length > 0 && lead < 0xF5 && length <= text.size();
  for (size_t i = 1; whole && i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    whole = (next & 0xC0) == 0x80;
    code = code << 6 | (next & 0x3F);
  }
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x2028 && code <= 0x202E);
  Glyph glyph{whole && !control ? std::string(text.substr(0, length)) : "?", 1};
  if (whole && !control && is_wide(code)) glyph.columns = 2;
  text.remove_prefix(whole ? length : 1);
  return glyph;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) columns += take_glyph(text).columns;
  return columns;
}

std::string fitted(std::string_view line, size_t width) {
  std::string result;
  for (size_t columns = 0; !line.empty();) {
    const Glyph glyph = take_glyph(line);
    columns += glyph.columns;
    if (columns > width) break;
    result += glyph.bytes;
  }
  return result;
}

std::string fitted_middle(std::string_view line, size_t width) {
  constexpr std::string_view kCut = "..";
  if (display_width(line) <= width || width <= kCut.size()) return fitted(line, width);
  const size_t kept = width - kCut.size(), end = kept / 2;
  std::vector<Glyph> glyphs;
  for (std::string_view rest = line; !rest.empty();) glyphs.push_back(take_glyph(rest));
  std::string tail;
  size_t columns = 0;
  for (auto glyph = glyphs.rbegin(); glyph != glyphs.rend() && columns + glyph->columns <= end; ++glyph) {
    tail.insert(0, glyph->bytes);
    columns += glyph->columns;
  }
  return fitted(line, kept - end) + std::string(kCut) + tail;
}

std::vector<std::string> wrapped(std::string_view line, size_t width) {
  const std::string shown = fitted(line, SIZE_MAX);
  std::string_view text = shown;
  std::vector<std::string> lines;
  do {
    size_t taken = fitted(text, width).size();
    if (taken < text.size() && taken > 0) {
      const size_t space = text.substr(0, taken + 1).rfind(' ');
      if (space != text.npos && space > 0) taken = space;
    }
    if (taken == 0) break;  // not even one character has room
    lines.emplace_back(text.substr(0, taken));
    text.remove_prefix(taken);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  } while (!text.empty());
  return lines.empty() ? std::vector<std::string>{""} : lines;
}

std::string format_compact(uint64_t value) {
  if (value < 1000) return std::to_string(value);
  auto scaled = static_cast<double>(value);
  size_t unit = 0;
  for (; scaled >= 999.5 && unit < 6; ++unit) scaled /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g%c", scaled, " kMGTPE"[unit]);
  return text;
}

std::string format_hash(uint64_t hash) {
  char text[24];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

std::string format_short(uint64_t value) { return value < 10'000'000 ? format_count(value) : format_compact(value); }

std::string format_figure(double value, int decimals) {
  if (std::isfinite(value) && std::abs(value) >= 99'999.0) return format_compact_figure(value);
  return format_number(value, decimals);
}

std::string format_compact_figure(double value) {
  if (!std::isfinite(value)) return "-";
  if (std::abs(value) < 999.95) return format_number(value, 1);
  if (std::abs(value) < 1e18)
    return (value < 0 ? "-" : "") + format_compact(static_cast<uint64_t>(std::llround(std::abs(value))));
  char text[32];
  std::snprintf(text, sizeof text, "%.0e", value);
  return text;
}

std::string format_count(uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string format_counted(uint64_t count, std::string_view noun) {
  return format_count(count) + ' ' + std::string(noun) + (count == 1 ? "" : "s");
}

std::string format_short_counted(uint64_t count, std::string_view noun) {
  return format_short(count) + ' ' + std::string(noun) + (count == 1 ? "" : "s");
}

std::string format_number(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  const bool large = std::abs(value) >= 1e9;
  std::snprintf(text, sizeof text, large ? "%.*g" : "%.*f", large ? 4 : decimals, value);
  // The sign of "-0.0" would be misleading.
  const std::string_view digits(text);
  if (digits.starts_with('-') && digits.find_first_not_of("-0.") == std::string_view::npos) return text + 1;
  return text;
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  char text[32];
  const unsigned minutes = whole / 60 % 60, rest = whole % 60;
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%llu:%02u:%02u", static_cast<unsigned long long>(whole / 3600), minutes, rest);
  else
    std::snprintf(text, sizeof text, "%u:%02u", minutes, rest);
  return text;
}

std::string format_bytes(uint64_t bytes) {
  if (bytes >= 10'000'000'000) return format_count(bytes / 1'000'000'000) + " GB";
  return bytes == 0 ? "- MB" : format_count((bytes + 500'000) / 1'000'000) + " MB";
}

std::string format_percent(double fraction) {
  if (!std::isfinite(fraction)) return "-";
  constexpr double kExact = 1e-9;  // of sums of shares
  const double percent = 100 * std::clamp(fraction, -9.99, 9.99);
  return format_number(fraction < 1 - kExact ? std::min(percent, 99.0) : percent, 0) + " %";
}

}  // namespace troupe
