#include "envs/grid_world.h"

#include <algorithm>
#include <array>

namespace troupe {

namespace {

using Cell = GridWorld::Cell;
using Options = GridWorld::Options;
constexpr std::array<int32_t, 4> kRowOffset{-1, 0, 1, 0}, kColumnOffset{0, 1, 0, -1};

// Turns free cells into walls if the goal cannot be reached from them without a pit.
void wall_up_unreachable(Options& grid, int32_t goal) {
  std::vector<bool> reached(grid.cells.size(), false);
  std::vector<int32_t> frontier{goal};
  reached[static_cast<size_t>(goal)] = true;
  while (!frontier.empty()) {
    const int32_t cell = frontier.back();
    frontier.pop_back();
    for (int32_t action = 0; action < 4; ++action) {
      if (!grid.allowed(cell, action)) continue;
      const int32_t next = grid.moved(cell, action);
      if (grid.at(next) != Cell::free || reached[static_cast<size_t>(next)]) continue;
      reached[static_cast<size_t>(next)] = true;
      frontier.push_back(next);
    }
  }
  for (size_t i = 0; i < grid.cells.size(); ++i) {
    if (grid.cells[i] == Cell::free && !reached[i]) grid.cells[i] = Cell::wall;
    if (grid.cells[i] == Cell::free) grid.starts.push_back(static_cast<int32_t>(i));
  }
}

// Draws layouts until half of the grid is walkable. Each attempt has fewer walls and pits, so the loop ends.
void draw_layout(Options& grid, uint64_t layout_seed, double walls, double pits) {
  Rng rng(derive_key(layout_seed, "grid_world"));
  const size_t count = static_cast<size_t>(grid.size) * static_cast<size_t>(grid.size);
  for (;; walls *= 0.9, pits *= 0.9) {
    grid.cells.assign(count, Cell::free);
    grid.starts.clear();
    for (Cell& cell : grid.cells) {
      const double draw = rng.uniform_double();
      cell = draw < walls ? Cell::wall : draw < walls + pits ? Cell::pit : Cell::free;
    }
    const size_t goal = rng.below(count);
    grid.cells[goal] = Cell::goal;
    wall_up_unreachable(grid, static_cast<int32_t>(goal));
    if (2 * grid.starts.size() >= count) return;
  }
}

// Red, green and blue of a cell. The agent is blue 255.
std::array<uint8_t, 3> color(Cell cell) {
  switch (cell) {
    case Cell::free: break;
    case Cell::wall: return {128, 128, 128};
    case Cell::pit: return {255, 0, 0};
    case Cell::goal: return {0, 255, 0};
  }
  return {0, 0, 0};
}

std::vector<uint8_t> picture_of(const std::vector<Cell>& cells) {
  std::vector<uint8_t> picture(3 * cells.size());
  for (size_t i = 0; i < cells.size(); ++i)
    for (size_t channel = 0; channel < 3; ++channel) picture[channel * cells.size() + i] = color(cells[i])[channel];
  return picture;
}

// The expected value of a move, including the probability of a slip.
double move_value(const Options& grid, const std::vector<double>& values, int32_t cell, int32_t action) {
  const auto value_of = [&](int32_t move) {
    const int32_t next = grid.moved(cell, move);
    return grid.reward(next) + values[static_cast<size_t>(next)];
  };
  double slipped = 0;
  int ways = 0;
  for (int32_t other = 0; other < 4; ++other) {
    if (!grid.allowed(cell, other)) continue;
    slipped += value_of(other);
    ++ways;
  }
  return (1 - grid.slip) * value_of(action) + grid.slip * slipped / ways;
}

}  // namespace

Options GridWorld::Options::read(EnvParams& params) {
  Options grid;
  grid.size = static_cast<int32_t>(params.integer("size", 8, 3, 64, "cells along each side of the grid"));
  const int64_t layout_seed = params.integer("layout_seed", 1, 0, 1'000'000'000, "seed of the random layout");
  const double walls = params.number("walls", 0.2, 0.0, 0.5, "probability that a cell is a wall");
  const double pits = params.number("pits", 0.05, 0.0, 0.5, "probability that a cell is a pit");
  grid.slip = params.number("slip", 0.0, 0.0, 1.0, "probability that a move goes into a random allowed direction");
  grid.step_cost = params.number("step_cost", 0.02, 0.0, 1.0, "subtracted from the reward of every move");
  grid.max_episode_steps = static_cast<int32_t>(
      params.integer("max_episode_steps", 200, 1, 1'000'000, "steps after which an episode is truncated"));
  grid.image = params.choice("observation", "cell", {"cell", "image"},
                             "the agent's cell as a one-hot vector, or the whole grid as an image") == "image";
  draw_layout(grid, static_cast<uint64_t>(layout_seed), walls, pits);
  grid.picture = picture_of(grid.cells);
  return grid;
}

bool GridWorld::Options::allowed(int32_t cell, int32_t action) const {
  const int32_t row = cell / size + kRowOffset[static_cast<size_t>(action)];
  const int32_t column = cell % size + kColumnOffset[static_cast<size_t>(action)];
  return row >= 0 && row < size && column >= 0 && column < size && at(row * size + column) != Cell::wall;
}

int32_t GridWorld::Options::moved(int32_t cell, int32_t action) const {
  return cell + kRowOffset[static_cast<size_t>(action)] * size + kColumnOffset[static_cast<size_t>(action)];
}

double GridWorld::Options::reward(int32_t cell) const {
  return (at(cell) == Cell::goal ? 1.0 : at(cell) == Cell::pit ? -1.0 : 0.0) - step_cost;
}

EnvSpec GridWorld::spec(const Options& options) {
  EnvSpec spec;
  if (options.image)
    spec.observations = {{"image", DType::u8, {3, options.size, options.size}}};
  else
    spec.observations = {{"cell", DType::f32, {options.size * options.size}}};  // one-hot
  spec.action.bins = {4};
  spec.action.masked = true;
  spec.max_episode_steps = options.max_episode_steps;
  spec.reports_success = true;
  return spec;
}

void GridWorld::reset(Rng& rng) { state.cell = options_->starts[rng.below(options_->starts.size())]; }

RowStep GridWorld::step(int32_t action, Rng& rng) {
  if (options_->slip > 0 && rng.uniform_double() < options_->slip) {
    do action = static_cast<int32_t>(rng.below(4));
    while (!options_->allowed(state.cell, action));
  }
  state.cell = options_->moved(state.cell, action);
  const Cell here = options_->at(state.cell);
  return {.reward = static_cast<float>(options_->reward(state.cell)),
          .terminated = here == Cell::goal || here == Cell::pit,
          .success = here == Cell::goal};
}

void GridWorld::observe(RowWriter out) const {
  if (options_->image) {
    const std::span<uint8_t> picture = out.array<uint8_t>();
    std::ranges::copy(options_->picture, picture.begin());
    picture[2 * options_->cells.size() + static_cast<size_t>(state.cell)] = 255;
    return;
  }
  const std::span<float> cells = out.array<float>();
  std::fill(cells.begin(), cells.end(), 0.0f);
  cells[static_cast<size_t>(state.cell)] = 1.0f;
}

void GridWorld::mask(std::span<uint8_t> allowed) const {
  for (int32_t action = 0; action < 4; ++action)
    allowed[static_cast<size_t>(action)] = options_->allowed(state.cell, action);
}

std::string GridWorld::render() const {
  std::string text;
  for (int32_t cell = 0; cell < options_->size * options_->size; ++cell) {
    constexpr std::string_view kMarks = ".#OG";
    text += cell == state.cell ? '@' : kMarks[static_cast<size_t>(options_->at(cell))];
    text += cell % options_->size == options_->size - 1 ? '\n' : ' ';
  }
  return text;
}

std::vector<double> optimal_values(const Options& options) {
  std::vector<double> values(options.cells.size(), 0.0);
  constexpr int kMaxSweeps = 100'000;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double change = 0;
    for (const int32_t cell : options.starts) {
      double best = -std::numeric_limits<double>::infinity();
      for (int32_t action = 0; action < 4; ++action)
        if (options.allowed(cell, action)) best = std::max(best, move_value(options, values, cell, action));
      double& value = values[static_cast<size_t>(cell)];
      change = std::max(change, std::abs(best - value));
      value = best;
    }
    if (change < 1e-12) break;
  }
  return values;
}

double grid_world_optimum(const std::string& params_json) {
  EnvParams params(params_json);
  const Options options = Options::read(params);
  params.finish();
  const std::vector<double> values = optimal_values(options);
  double sum = 0;
  for (const int32_t start : options.starts) sum += values[static_cast<size_t>(start)];
  return sum / static_cast<double>(options.starts.size());
}

template class Batched<GridWorld>;

}  // namespace troupe
