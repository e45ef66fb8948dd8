#pragma once
// The terminal, as ncurses shows it: the only part of `troupe top` that uses it. One thread, and one Screen at a time.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/top/frame.h"

namespace troupe {

// Why this program or this terminal has no Screen; empty if it has one.
std::string_view no_screen();

enum class Key : uint8_t { other, quit, next, previous, help, view, resize };

struct Pressed {
  Key key = Key::other;
  TopView view = TopView::overview;  // of Key::view
};

class Screen {
 public:
  // Begins with an empty screen. Throws ConfigError if the terminal cannot show one.
  Screen();
  // Restores the terminal.
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  FrameSize size() const;
  // Replaces what is shown.
  void draw(const std::vector<FrameLine>& lines);
  // The next key that was pressed; nothing if there is none now.
  std::optional<Pressed> pressed();
};

}  // namespace troupe
