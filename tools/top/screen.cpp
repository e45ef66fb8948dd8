#include "tools/top/screen.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#ifdef TROUPE_HAS_CURSES
#include <langinfo.h>

#include <clocale>

#define NCURSES_NOMACROS
#include <curses.h>

#include "runtime/base/errors.h"
#endif

namespace troupe {

#ifndef TROUPE_HAS_CURSES

std::string_view no_screen() {
  return "this program was built without ncursesw (Debian: libncurses-dev), so it prints one line for each report";
}
Screen::Screen() = default;
Screen::~Screen() = default;
FrameSize Screen::size() const { return {}; }
void Screen::draw(const std::vector<FrameLine>&) {}
std::optional<Pressed> Screen::pressed() { return {}; }

#else

namespace {

bool has_variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return value != nullptr && *value != '\0';
}

// By the value of Look: the colour, and what is shown without colours too.
struct Style {
  short color;
  attr_t attributes;
};
constexpr short kDefaultColor = -1;
constexpr std::array<Style, 8> kStyles = {{{kDefaultColor, A_NORMAL},
                                           {kDefaultColor, A_DIM},
                                           {kDefaultColor, A_BOLD},
                                           {kDefaultColor, A_REVERSE},
                                           {COLOR_CYAN, A_NORMAL},
                                           {COLOR_GREEN, A_NORMAL},
                                           {COLOR_YELLOW, A_BOLD},
                                           {COLOR_RED, A_BOLD}}};

void begin_colors() {
  if (has_variable("NO_COLOR") || !has_colors() || start_color() == ERR || use_default_colors() == ERR) return;
  for (size_t i = 0; i < kStyles.size(); ++i) init_pair(static_cast<short>(i + 1), kStyles[i].color, kDefaultColor);
}

}  // namespace

std::string_view no_screen() {
  const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  if (term == nullptr || *term == '\0' || std::strcmp(term, "dumb") == 0)
    return "the terminal cannot be drawn on (TERM is dumb or empty), so one line is printed for each report";
  return "";
}

Screen::Screen() {
  std::setlocale(LC_CTYPE, "");  // of characters alone: numbers keep their point
  SCREEN* screen = newterm(nullptr, stdout, stdin);
  if (screen == nullptr)
    throw ConfigError("TERM: this terminal is not known here; use --once, or TERM=dumb for one line of each report");
  set_term(screen);
  begin_colors();
  cbreak();
  noecho();
  nonl();
  curs_set(0);
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(25);
}

Screen::~Screen() {
  endwin();
  std::setlocale(LC_CTYPE, "C");
}

FrameSize Screen::size() const {
  int rows = 0, columns = 0;
  getmaxyx(stdscr, rows, columns);
  return {.width = static_cast<size_t>(columns),
          .height = static_cast<size_t>(rows),
          .ascii = std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0};
}

void Screen::draw(const std::vector<FrameLine>& lines) {
  erase();
  for (size_t row = 0; row < lines.size(); ++row) {
    move(static_cast<int>(row), 0);
    for (const Piece& piece : lines[row]) {
      const auto look = static_cast<size_t>(piece.look);
      const bool colors = has_colors() && COLOR_PAIRS > 0;
      attr_set(kStyles[look].attributes, static_cast<short>(colors ? look + 1 : 0), nullptr);
      addnstr(piece.text.data(), static_cast<int>(piece.text.size()));
    }
  }
  refresh();
}

std::optional<Pressed> Screen::pressed() {
  const int key = getch();
  if (key == ERR) return std::nullopt;
  if (key >= '1' && key <= '5') return Pressed{Key::view, static_cast<TopView>(key - '1')};
  switch (key) {
    case 'q':
    case 'Q': return Pressed{Key::quit};
    case '\t':
    case KEY_RIGHT:
    case KEY_DOWN: return Pressed{Key::next};
    case KEY_BTAB:
    case KEY_LEFT:
    case KEY_UP: return Pressed{Key::previous};
    case '?':
    case 'h': return Pressed{Key::help};
    case KEY_RESIZE: return Pressed{Key::resize};
    default: return Pressed{Key::other};
  }
}

#endif

}  // namespace troupe
