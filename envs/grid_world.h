#pragma once
// GridWorld: find the goal on a square grid with walls and pits. Moves into walls are masked out, every move has a
// cost, and a pit ends the episode. grid_world_optimum() gives the best possible return. The observation is the agent's
// cell as a one-hot vector, or the whole grid as an image. A row class, see envs/row.h.

#include <string>
#include <vector>

#include "envs/batched.h"
#include "envs/params.h"

namespace troupe {

class GridWorld {
 public:
  enum class Cell : uint8_t { free, wall, pit, goal };

  struct Options {
    int32_t size = 8;
    double slip = 0.0;  // probability that a move goes into a random allowed direction instead
    double step_cost = 0.02;
    int32_t max_episode_steps = 200;
    bool image = false;
    std::vector<Cell> cells;  // [size * size], row by row; from every free cell the goal can be reached without a pit
    std::vector<int32_t> starts;   // the free cells; an episode begins in a random one
    std::vector<uint8_t> picture;  // [3 * size * size] the image without the agent

    static Options read(EnvParams& params);
    bool allowed(int32_t cell, int32_t action) const;  // actions: 0 up, 1 right, 2 down, 3 left
    int32_t moved(int32_t cell, int32_t action) const;
    // The reward of a move onto `cell`.
    double reward(int32_t cell) const;
    Cell at(int32_t cell) const { return cells[static_cast<size_t>(cell)]; }
  };
  struct State {
    int32_t cell = 0;
  };
  State state;

  explicit GridWorld(const Options& options) : options_(&options) {}
  static EnvSpec spec(const Options& options);
  void reset(Rng& rng);
  RowStep step(int32_t action, Rng& rng);
  void observe(RowWriter out) const;
  void mask(std::span<uint8_t> allowed) const;
  std::string render() const;

 private:
  const Options* options_;
};

// [size * size] the expected return of the best policy from each cell, undiscounted and without the time limit.
std::vector<double> optimal_values(const GridWorld::Options& options);
// The mean of optimal_values() over the start cells: the best possible mean return, for `env.params` as JSON.
double grid_world_optimum(const std::string& params_json);

extern template class Batched<GridWorld>;

}  // namespace troupe
