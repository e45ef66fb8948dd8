#pragma once
// The picture that `troupe top` shows, as lines of text with looks. Pure functions; any thread. Names and errors come
// from outside: control characters in them are never part of a picture.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/top/model.h"

namespace troupe {

enum class Look : uint8_t { plain, faint, heading, chosen, curve, good, warning, error };

struct Piece {
  std::string text;
  Look look = Look::plain;
};
using FrameLine = std::vector<Piece>;

enum class TopView : uint8_t { overview, learning, flow, machines, events, help };
// By the value of TopView.
inline constexpr std::array<std::string_view, 6> kViewNames = {"Overview", "Learning", "Flow",
                                                               "Machines", "Events",   "Help"};

struct FrameSize {
  size_t width = 80, height = 24;
  bool ascii = false;  // the terminal does not show other characters
  bool broken = true;  // long texts take several lines
};

// At most `height` lines of at most `width` columns. With room for it, the overview has all other views side by side.
std::vector<FrameLine> frame(const TopModel& model, TopView view, const FrameSize& size);

// Everything of the model without looks, for what is no terminal: the overview and then each view, in as many lines as
// they take. With a width of SIZE_MAX no text is cut.
std::string plain_frame(const TopModel& model, size_t width, bool ascii);

// "running", "connection lost, trying again", and so on.
std::string state_text(const TopModel& model);

}  // namespace troupe
