#pragma once
// How views show a figure of a run: the last part of a row of its table, with defaults. Plain data; any thread.

#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe {

// What the values of a figure are.
enum class FigureType : uint8_t {
  counter,  // a number that only grows within one start of the run
  gauge,    // another number, or whether something holds
  text,
  map,        // an object with an entry for each of something
  histogram,  // an object with counts by the upper bounds of their values
};

// In which direction a figure changes when the run does better.
enum class Better : uint8_t { neither, up, down };

struct FigureView {
  std::string_view label = {};          // a few words for people; empty: the words of the path
  std::string_view in_token_runs = {};  // the label there; empty: the same
  Better better = Better::neither;
  std::optional<FigureType> type = {};  // empty: what the unit and the name in Prometheus say
};

// For the rows of the tables.
constexpr FigureView shown(std::string_view label, Better better = Better::neither) {
  return {.label = label, .better = better};
}
constexpr FigureView shown(std::string_view label, std::string_view in_token_runs, Better better = Better::neither) {
  return {.label = label, .in_token_runs = in_token_runs, .better = better};
}

}  // namespace troupe
