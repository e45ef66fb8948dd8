#include "envs/grid_world.h"

#include <cmath>
#include <deque>

#include "tests/envs/fixtures.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

GridWorld::Options options_of(const std::string& json) {
  EnvParams params(json);
  return GridWorld::Options::read(params);
}

// The number of moves to the goal that avoid pits, by breadth-first search; -1 if there is no path.
std::vector<int> distances(const GridWorld::Options& grid) {
  std::vector<int> moves(grid.cells.size(), -1);
  std::deque<int32_t> queue;
  for (size_t i = 0; i < grid.cells.size(); ++i)
    if (grid.cells[i] == GridWorld::Cell::goal) {
      moves[i] = 0;
      queue.push_back(static_cast<int32_t>(i));
    }
  while (!queue.empty()) {
    const int32_t cell = queue.front();
    queue.pop_front();
    for (int32_t action = 0; action < 4; ++action) {
      if (!grid.allowed(cell, action)) continue;
      const int32_t next = grid.moved(cell, action);
      if (grid.at(next) != GridWorld::Cell::free || moves[static_cast<size_t>(next)] >= 0) continue;
      moves[static_cast<size_t>(next)] = moves[static_cast<size_t>(cell)] + 1;
      queue.push_back(next);
    }
  }
  return moves;
}

int32_t best_action(const GridWorld::Options& grid, const std::vector<double>& values, int32_t cell) {
  int32_t best = -1;
  double best_value = -INFINITY;
  for (int32_t action = 0; action < 4; ++action) {
    if (!grid.allowed(cell, action)) continue;
    const int32_t next = grid.moved(cell, action);
    const double value = grid.reward(next) + values[static_cast<size_t>(next)];
    if (value > best_value) {
      best = action;
      best_value = value;
    }
  }
  return best;
}

// The mean return, over `episodes` episodes played through the Env interface, of the greedy
// policy of the optimal values.
double played_return(const std::string& params, int episodes) {
  const GridWorld::Options grid = options_of(params);
  const std::vector<double> values = optimal_values(grid);
  EnvConfig config;
  config.id = "GridWorld";
  config.params = params;
  config.rows = 64;
  const auto env = make_env(config);
  EnvStep step = EnvStep::allocate(env->spec(), 64);
  env->reset(5, 0, step);
  double sum = 0;
  int finished = 0;
  while (finished < episodes) {
    Array actions(DType::i32, {64, 1, 1});
    for (int64_t i = 0; i < 64; ++i) {
      const Array row = step.observations[0].second.at(i);
      const auto cell = std::find(row.view<float>().begin(), row.view<float>().end(), 1.0f) - row.view<float>().begin();
      actions.mutable_view<int32_t>()[static_cast<size_t>(i)] = best_action(grid, values, static_cast<int32_t>(cell));
    }
    env->step(actions, step);
    for (size_t i = 0; i < 64; ++i) {
      sum += step.rewards.view<float>()[i];
      finished += step.terminated.view<uint8_t>()[i] + step.truncated.view<uint8_t>()[i];
    }
  }
  return sum / finished;
}

}  // namespace

TEST_CASE("grid_world: without slips the optimum is one goal reward minus the cost of the shortest path") {
  for (int seed = 0; seed < 20; ++seed) {
    const std::string params = "{\"layout_seed\": " + std::to_string(seed) + "}";
    const GridWorld::Options grid = options_of(params);
    const std::vector<int> moves = distances(grid);
    const std::vector<double> values = optimal_values(grid);
    REQUIRE(2 * grid.starts.size() >= grid.cells.size());
    double mean = 0;
    for (int32_t start : grid.starts) {
      REQUIRE(moves[static_cast<size_t>(start)] > 0);
      const double wanted = 1.0 - 0.02 * moves[static_cast<size_t>(start)];
      REQUIRE(values[static_cast<size_t>(start)] == doctest::Approx(wanted));
      mean += wanted / static_cast<double>(grid.starts.size());
    }
    CHECK(grid_world_optimum(params) == doctest::Approx(mean));
  }
}

TEST_CASE("grid_world: the greedy policy of the optimal values reaches the optimum") {
  CHECK(played_return("{}", 20000) == doctest::Approx(grid_world_optimum("{}")).epsilon(0.005));
}

TEST_CASE("grid_world: slips lower the optimum, and a random walk is worse") {
  const double sure = grid_world_optimum("{}"), slippery = grid_world_optimum(R"({"slip": 0.3})");
  const double random = grid_world_optimum(R"({"slip": 1.0})");
  CHECK(slippery < sure);
  CHECK(random < slippery);
}

TEST_CASE("grid_world: with slips, one step from each cell confirms the optimal values") {
  const GridWorld::Options grid = options_of(R"({"slip": 0.3, "size": 5})");
  const std::vector<double> values = optimal_values(grid);
  Rng rng(3);
  GridWorld row(grid);
  for (int32_t start :
       grid.starts) {  // the value of a cell is the largest mean of reward + next value over its actions
    double best = -INFINITY;
    for (int32_t action = 0; action < 4; ++action) {
      if (!grid.allowed(start, action)) continue;
      constexpr int kDraws = 20000;
      double sum = 0;
      for (int draw = 0; draw < kDraws; ++draw) {
        row.state.cell = start;
        sum += row.step(action, rng).reward + values[static_cast<size_t>(row.state.cell)];
      }
      best = std::max(best, sum / kDraws);
    }
    CHECK(best == doctest::Approx(values[static_cast<size_t>(start)]).epsilon(0.02));
  }
}

TEST_CASE("grid_world: extreme parameters still give a walkable layout") {
  for (const char* params : {R"({"size": 3, "walls": 0.5, "pits": 0.5})", R"({"size": 64, "walls": 0.5, "pits": 0.5})",
                             R"({"size": 3, "walls": 0, "pits": 0})"}) {
    const GridWorld::Options grid = options_of(params);
    CHECK(2 * grid.starts.size() >= grid.cells.size());
    CHECK(std::count(grid.cells.begin(), grid.cells.end(), GridWorld::Cell::goal) == 1);
    CHECK(std::isfinite(grid_world_optimum(params)));
  }
}

TEST_CASE("grid_world: the image shows walls, pits, the goal and the agent, in the same episode as the cell") {
  const std::string layout = R"("size": 6, "layout_seed": 4, "max_episode_steps": 40)";
  const GridWorld::Options grid = options_of("{" + layout + "}");
  EnvConfig config;
  config.id = "GridWorld";
  config.rows = 5;
  config.params = "{" + layout + "}";
  const auto cells = make_env(config);
  config.params = "{" + layout + R"(, "observation": "image"})";
  const auto images = make_env(config);
  REQUIRE(images->spec().observations[0].shape == Shape{3, 6, 6});
  REQUIRE(images->spec().observations[0].dtype == DType::u8);
  EnvStep cell_step = EnvStep::allocate(cells->spec(), 5), image_step = EnvStep::allocate(images->spec(), 5);
  cells->reset(9, 0, cell_step);
  images->reset(9, 0, image_step);
  for (uint64_t t = 0; t < 100; ++t) {
    for (int64_t row = 0; row < 5; ++row) {
      const Array cell_row = cell_step.observations[0].second.at(row),
                  image_row = image_step.observations[0].second.at(row);
      const auto one_hot = cell_row.view<float>();
      const auto image = image_row.view<uint8_t>();
      for (size_t i = 0; i < 36; ++i) {
        const uint8_t red = image[i], green = image[36 + i], blue = image[72 + i];
        const GridWorld::Cell cell = grid.cells[i];
        REQUIRE((blue == 255) == (one_hot[i] == 1.0f));
        REQUIRE((red == 255) == (cell == GridWorld::Cell::pit));
        REQUIRE((green == 255) == (cell == GridWorld::Cell::goal));
        REQUIRE((red == 128 && green == 128) == (cell == GridWorld::Cell::wall));
      }
    }
    const Array actions = test::random_actions(*cells, cell_step, t);
    cells->step(actions, cell_step);
    images->step(actions, image_step);
    REQUIRE(cell_step.rewards == image_step.rewards);
  }
}
