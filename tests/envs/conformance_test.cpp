// Requirements on every environment. Each case runs over all of conformance_ids().

#include <cmath>
#include <functional>

#include "tests/envs/fixtures.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const uint64_t kSteps = conformance_steps();

void for_every_env(const std::function<void(const std::string&)>& body) {
  for (const std::string& id : conformance_ids()) {
    CAPTURE(id);
    body(id);
  }
}

struct Running {
  std::unique_ptr<Env> env;
  EnvStep step;
  uint64_t first_row = 0;

  Running(const EnvConfig& config, uint64_t seed, uint64_t first = 0) : env(make_env(config)), first_row(first) {
    step = EnvStep::allocate(env->spec(), env->rows());
    env->reset(seed, first_row, step);
  }
  void advance(uint64_t t) { env->step(random_actions(*env, step, t, first_row), step); }
  bool finished(size_t i) const { return step.terminated.view<uint8_t>()[i] || step.truncated.view<uint8_t>()[i]; }
};

}  // namespace

TEST_CASE("every env: the spec is valid and the buffers fit it") {
  for_every_env([](const std::string& id) {
    Running run(small_config(id, 3), 1);
    const EnvSpec& spec = run.env->spec();
    CHECK(spec.id == id);
    CHECK(run.env->rows() == 3);
    CHECK(spec.max_episode_steps > 0);
    for (size_t k = 0; k < spec.observations.size(); ++k)
      CHECK(run.step.observations[k].second.shape() == spec.observations[k].shape.prepended(3));
    CHECK(!run.env->render(2).empty());
    CHECK_THROWS_AS(run.env->render(3), InvariantError);
  });
}

TEST_CASE("every env: the seed determines a run exactly") {
  for_every_env([](const std::string& id) {
    Running a(small_config(id, 4), 7), b(small_config(id, 4), 7), other(small_config(id, 4), 8);
    CHECK(all_bytes(a.step) == all_bytes(b.step));
    CHECK(all_bytes(a.step) != all_bytes(other.step));
    for (uint64_t t = 0; t < kSteps; ++t) {
      a.advance(t);
      b.advance(t);
      REQUIRE(all_bytes(a.step) == all_bytes(b.step));
    }
    std::string bytes_a, bytes_b;
    REQUIRE(a.env->save(bytes_a));
    REQUIRE(b.env->save(bytes_b));
    CHECK(bytes_a == bytes_b);
  });
}

TEST_CASE("every env: a second reset with the same seed repeats the run") {
  for_every_env([](const std::string& id) {
    Running run(small_config(id, 4), 7);
    const std::string first = all_bytes(run.step);
    for (uint64_t t = 0; t < 50; ++t) run.advance(t);
    run.env->reset(7, 0, run.step);
    CHECK(all_bytes(run.step) == first);
    std::string again, fresh;
    run.env->save(again);
    Running(small_config(id, 4), 7).env->save(fresh);
    CHECK(again == fresh);
  });
}

TEST_CASE("every env: row i of N behaves like row 0 of a vector whose first row is i") {
  for_every_env([](const std::string& id) {
    Running many(small_config(id, 5), 3), alone(small_config(id, 1), 3, 3);
    CHECK(row_bytes(many.step, 3) == row_bytes(alone.step, 0));
    for (uint64_t t = 0; t < kSteps; ++t) {
      many.advance(t);
      alone.advance(t);
      REQUIRE(row_bytes(many.step, 3) == row_bytes(alone.step, 0));
    }
  });
}

TEST_CASE("every env: rows of one vector start differently") {
  for_every_env([](const std::string& id) {
    Running run(small_config(id, 16), 1);
    bool differ = false;
    for (int64_t i = 1; i < 16; ++i) differ = differ || row_bytes(run.step, i) != row_bytes(run.step, 0);
    CHECK(differ);
  });
}

TEST_CASE("every env: reset and step write every element and keep the buffers") {
  for_every_env([](const std::string& id) {
    Running a(small_config(id, 3), 5), b(small_config(id, 3), 5);
    std::vector<const std::byte*> places;
    for (const auto& [name, array] : a.step.observations) places.push_back(array.data());
    for (uint64_t t = 0; t < 100; ++t) {
      const Array actions = random_actions(*a.env, a.step, t);
      scribble(a.step, 0x55);
      scribble(b.step, 0x7b);
      a.env->step(actions, a.step);
      b.env->step(actions, b.step);
      REQUIRE(all_bytes(a.step) == all_bytes(b.step));
    }
    scribble(a.step, 0x55);
    scribble(b.step, 0x7b);
    a.env->reset(6, 0, a.step);
    b.env->reset(6, 0, b.step);
    CHECK(all_bytes(a.step) == all_bytes(b.step));
    for (size_t k = 0; k < places.size(); ++k) CHECK(a.step.observations[k].second.data() == places[k]);
  });
}

TEST_CASE("every env: observations may be rows of a larger array") {
  for_every_env([](const std::string& id) {
    Running plain(small_config(id, 2), 5), sliced(small_config(id, 2), 5);
    const EnvSpec& spec = plain.env->spec();
    Arrays all;
    for (const ArraySpec& array : spec.observations)
      all.set(array.name, Array(array.dtype, array.shape.prepended(2).prepended(3)));
    for (auto& [name, array] : sliced.step.observations) array = all.at(name).at(1);
    const Array actions = random_actions(*plain.env, plain.step, 0);
    plain.env->step(actions, plain.step);
    sliced.env->step(actions, sliced.step);
    for (const auto& [name, array] : plain.step.observations) {
      CHECK(all.at(name).at(1) == array);
      CHECK(all.at(name).at(0) == Array(array.dtype(), array.shape()));
      CHECK(all.at(name).at(2) == Array(array.dtype(), array.shape()));
    }
  });
}

TEST_CASE("every env: after save and load it continues identically, also in another object") {
  for_every_env([](const std::string& id) {
    Running a(small_config(id, 3), 2), b(small_config(id, 3), 99);
    for (uint64_t t = 0; t < 77; ++t) a.advance(t);
    std::string bytes;
    REQUIRE(a.env->save(bytes));
    REQUIRE(b.env->load(bytes));
    b.env->observe(b.step);
    for (size_t k = 0; k < a.step.observations.size(); ++k) CHECK(a.step.observations[k] == b.step.observations[k]);
    CHECK(a.step.task == b.step.task);
    CHECK(a.step.action_mask == b.step.action_mask);
    for (uint64_t t = 77; t < 77 + kSteps; ++t) {
      a.advance(t);
      b.advance(t);
      REQUIRE(all_bytes(a.step) == all_bytes(b.step));
    }
  });
}

TEST_CASE("every env: bytes that are too short, too long or of another N are rejected and change nothing") {
  for_every_env([](const std::string& id) {
    Running run(small_config(id, 2), 2), three(small_config(id, 3), 2);
    std::string bytes, before, after;
    run.env->save(bytes);
    run.advance(0);
    run.env->save(before);
    for (const std::string& bad :
         {std::string(), std::string("nonsense"), bytes.substr(0, bytes.size() - 1), bytes + "x"})
      CHECK_THROWS_AS(run.env->load(bad), std::runtime_error);
    CHECK_THROWS_WITH_AS(three.env->load(bytes), doctest::Contains("2 rows"), std::runtime_error);
    run.env->save(after);
    CHECK(before == after);
  });
}

TEST_CASE("every env: episodes end within the limit; the final observation is not the next episode's first") {
  for_every_env([](const std::string& id) {
    Running run(small_config(id, 4), 11);
    const EnvSpec& spec = run.env->spec();
    std::vector<int64_t> elapsed(4, 0);
    int episodes = 0;
    for (uint64_t t = 0; t < 2000 && episodes < 8; ++t) {
      run.advance(t);
      for (size_t i = 0; i < 4; ++i) {
        elapsed[i] += run.step.executed.view<int32_t>()[i];
        REQUIRE(run.step.failed.view<uint8_t>()[i] == 0);
        REQUIRE(elapsed[i] <= spec.max_episode_steps);
        REQUIRE_FALSE((run.step.terminated.view<uint8_t>()[i] && run.step.truncated.view<uint8_t>()[i]));
        if (run.step.truncated.view<uint8_t>()[i]) REQUIRE(elapsed[i] == spec.max_episode_steps);
        if (!run.finished(i)) {
          REQUIRE(elapsed[i] < spec.max_episode_steps);
          REQUIRE(run.step.success.view<uint8_t>()[i] == 0);
          continue;
        }
        ++episodes;
        elapsed[i] = 0;
        const auto& [name, last] = run.step.final_observations[run.step.final_observations.size() - 1];
        const bool moved =
            !(last.at(static_cast<int64_t>(i)) == run.step.observations.at(name).at(static_cast<int64_t>(i)));
        if (id != "Corridor" && id != "GridWorld") REQUIRE(moved);  // few states: a start can equal an end state
      }
    }
    CHECK(episodes >= 4);
  });
}

TEST_CASE("every env: a chunk of K equals K single steps, and stops at the end of the episode") {
  for_every_env([](const std::string& id) {
    if (make_env(small_config(id, 1))->spec().action.masked) return;
    constexpr int32_t kChunk = 3;
    Running single(small_config(id, 1, 1), 4), chunked(small_config(id, 1, kChunk), 4);
    const int64_t dims = single.env->spec().action.dims();
    for (uint64_t t = 0; t < 200; ++t) {
      const Array chunk = random_actions(*chunked.env, chunked.step, t);
      double reward = 0;
      int32_t executed = 0;
      do {
        single.env->step(chunk.reshaped({kChunk, dims}).slice(executed, executed + 1).reshaped({1, 1, dims}),
                         single.step);
        reward += single.step.rewards.view<float>()[0];
        ++executed;
      } while (executed < kChunk && !single.finished(0));
      chunked.env->step(chunk, chunked.step);
      REQUIRE(chunked.step.executed.view<int32_t>()[0] == executed);
      REQUIRE(chunked.step.rewards.view<float>()[0] == doctest::Approx(reward).epsilon(1e-5));
      REQUIRE(chunked.step.terminated == single.step.terminated);
      REQUIRE(chunked.step.truncated == single.step.truncated);
      REQUIRE(chunked.step.observations == single.step.observations);
      if (single.finished(0)) REQUIRE(chunked.step.final_observations == single.step.final_observations);
    }
  });
}

TEST_CASE("every env: an invalid action fails its own row, with one line, and no other row") {
  for_every_env([](const std::string& id) {
    Running run(small_config(id, 3), 4), good(small_config(id, 3), 4);
    const ActionSpec& spec = run.env->spec().action;
    const size_t at = static_cast<size_t>(spec.decisions());  // the first number of row 1
    std::vector<double> bad{NAN, INFINITY};
    if (spec.kind != ActionKind::continuous) bad = {-1.0, static_cast<double>(spec.bins[0]), 2e9};
    for (size_t k = 0; k < bad.size(); ++k) {
      Array actions = random_actions(*run.env, run.step, k);
      good.env->step(actions, good.step);
      if (spec.kind == ActionKind::continuous)
        actions.mutable_view<float>()[at] = static_cast<float>(bad[k]);
      else
        actions.mutable_view<int32_t>()[at] = static_cast<int32_t>(bad[k]);
      run.env->step(actions, run.step);
      REQUIRE(run.step.failed == Array::of<uint8_t>({3}, {0, 1, 0}));
      REQUIRE(run.step.executed.view<int32_t>()[1] == 0);
      REQUIRE(run.step.rewards.view<float>()[1] == 0.0f);
      REQUIRE(run.step.errors.size() == 1);
      CHECK(run.step.errors[0].find("row 1: action") == 0);
      for (int64_t i : {0, 2}) CHECK(row_bytes(run.step, i) == row_bytes(good.step, i));
    }
    run.advance(9);
    CHECK(run.step.failed == Array(DType::u8, {3}));
  });
}

TEST_CASE("every env: continuous actions are clipped to the bounds") {
  for_every_env([](const std::string& id) {
    Running wide(small_config(id, 1), 4), edge(small_config(id, 1), 4);
    const ActionSpec& spec = wide.env->spec().action;
    if (spec.kind != ActionKind::continuous) return;
    Array far(DType::f32, spec.shape().prepended(1)), bound = far.clone();
    for (size_t a = 0; a < static_cast<size_t>(spec.dims()); ++a) {
      far.mutable_view<float>()[a] = 100.0f;
      bound.mutable_view<float>()[a] = spec.high[a];
    }
    wide.env->step(far, wide.step);
    edge.env->step(bound, edge.step);
    CHECK(all_bytes(wide.step) == all_bytes(edge.step));
  });
}

TEST_CASE("every env: masks allow at least one action per dimension, and a masked action fails the row") {
  for_every_env([](const std::string& id) {
    Running run(small_config(id, 4), 4);
    const ActionSpec& spec = run.env->spec().action;
    CHECK(run.step.action_mask.empty() == !spec.masked);
    if (!spec.masked) return;
    bool refused = false;
    for (uint64_t t = 0; t < 100; ++t) {
      Array actions = random_actions(*run.env, run.step, t);
      const Array mask = run.step.action_mask.at(0).clone();
      const auto allowed = mask.view<uint8_t>();
      REQUIRE(std::count(allowed.begin(), allowed.end(), uint8_t{1}) >= 1);
      const auto forbidden = std::find(allowed.begin(), allowed.end(), uint8_t{0});
      if (forbidden != allowed.end())
        actions.mutable_view<int32_t>()[0] = static_cast<int32_t>(forbidden - allowed.begin());
      run.env->step(actions, run.step);
      REQUIRE((run.step.failed.view<uint8_t>()[0] != 0) == (forbidden != allowed.end()));
      refused = refused || forbidden != allowed.end();
    }
    CHECK(refused);
  });
}

TEST_CASE("every env: an inactive row is not stepped, and starts a new episode when it is activated") {
  for_every_env([](const std::string& id) {
    Running run(small_config(id, 2), 4);
    run.env->set_active(1, false);
    for (uint64_t t = 0; t < 3; ++t) {
      run.advance(t);
      CHECK(run.step.failed == Array::of<uint8_t>({2}, {0, 2}));
      CHECK(run.step.executed.view<int32_t>()[1] == 0);
      CHECK(run.step.errors.empty());
    }
    run.env->set_active(1, true);
    run.advance(3);
    CHECK(run.step.failed == Array::of<uint8_t>({2}, {0, 2}));
    run.advance(4);
    CHECK(run.step.failed == Array::of<uint8_t>({2}, {0, 0}));
  });
}

TEST_CASE("every env: an episode that begins singly is the first one of the row of its number, and none follows") {
  for_every_env([](const std::string& id) {
    for (const int64_t chunk : {1, 3}) {
      if (chunk > 1 && make_env(small_config(id, 1))->spec().action.masked) continue;
      const auto env = make_env(small_config(id, 3, chunk)), other = make_env(small_config(id, 3, chunk));
      REQUIRE(env->play_singly(4));
      CHECK(difference_of_singles(*env, *other, 4, 5, kSteps) == "");
      CHECK(difference_of_singles(*env, *other, 4, 2, kSteps) == "");
    }
  });
}

TEST_CASE("every env: arrays that do not fit the spec are rejected") {
  for_every_env([](const std::string& id) {
    Running run(small_config(id, 2), 4);
    const ActionSpec& spec = run.env->spec().action;
    const DType other = spec.dtype() == DType::f32 ? DType::i32 : DType::f32;
    CHECK_THROWS_AS(run.env->step(Array(spec.dtype(), spec.shape().prepended(3)), run.step), InvariantError);
    CHECK_THROWS_AS(run.env->step(Array(other, spec.shape().prepended(2)), run.step), InvariantError);
    EnvStep small = EnvStep::allocate(run.env->spec(), 1);
    CHECK_THROWS_AS(run.env->step(random_actions(*run.env, run.step, 0), small), InvariantError);
    CHECK_THROWS_AS(run.env->reset(1, 0, small), InvariantError);
  });
}
