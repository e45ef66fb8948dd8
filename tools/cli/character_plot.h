#pragma once
// A plot made of characters, for a terminal. Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/cli/plot_panel.h"

namespace troupe {

enum class PlotCharacters : uint8_t {
  ascii,    // a letter-like mark for each curve
  symbols,  // the same with marks of Unicode
  braille,  // lines of dots, which only colours tell apart
};

struct CharacterPlot {
  size_t columns = 80, rows = 24;
  PlotCharacters characters = PlotCharacters::ascii;
  bool colours = false;
  size_t text_columns = 0;  // of the title, the labels of the curves and the notes; 0: as many as `columns`
};

// Lines that end with a newline, at most `rows` of them unless there are many curves: the curves of the means with
// their axes, and below them each curve's label, number of runs and last value with its interval.
std::string character_plot(const PlotPanel& panel, const CharacterPlot& how);

// What the variables LC_ALL, LC_CTYPE and LANG say about the characters of the terminal.
bool takes_utf8();

}  // namespace troupe
