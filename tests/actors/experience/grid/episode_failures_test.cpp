#include "actors/experience/grid/episode_player.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "actors/experience/grid/step_words.h"
#include "envs/batched.h"
#include "tests/actors/experience/grid/played_episodes.h"
#include "tests/support/first_action.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Episodes of 4 or 40 steps with reward 1, of which the short ones are a success. The draws say which episodes fail.
struct Flaky {
  struct Options {
    double fails = 0;           // of the steps, by chance that does not repeat with the episode
    bool doomed_fail = false;   // in its third step an episode that drew so fails, each time
    bool doomed_start = false;  // the same in its reset
    Rng* chance = nullptr;
    uint64_t* resets = nullptr;  // counts them
    int32_t fails_from = -1;     // the first step that fails, always; 0: reset() does
  };
  explicit Flaky(const Options& of) : options(of) {}
  static EnvSpec spec() {
    EnvSpec result;
    result.id = "Flaky";
    result.observations = {{"steps", DType::f32, {1}}};
    result.action.bins = {2};
    result.reports_success = true;
    return result;
  }
  void reset(Rng& rng) {
    length = rng.below(2) == 0 ? 4 : 40;
    doomed = rng.below(6) == 0;
    steps = 0;
    if (options.resets != nullptr) ++*options.resets;
    if (options.doomed_start && doomed) throw std::runtime_error("doomed");
    if (options.fails_from == 0) throw std::runtime_error("no start");
  }
  RowStep step(int32_t, Rng&) {
    if (steps + 1 == options.fails_from) throw std::runtime_error("no step");
    if (options.fails > 0 && options.chance->uniform_double() < options.fails) throw std::runtime_error("by chance");
    ++steps;
    if (options.doomed_fail && doomed && steps == 3) throw std::runtime_error("doomed");
    return {.reward = 1, .terminated = steps == length, .success = length == 4};
  }
  void observe(RowWriter out) const { out.array<float>()[0] = static_cast<float>(steps); }

  Options options;
  int32_t length = 0, steps = 0;
  bool doomed = false;
};

// Rows of one process: if one fails, all that are active do. Episodes cannot begin singly.
class OneProcess final : public Env {
 public:
  explicit OneProcess(std::unique_ptr<Env> env) : env_(std::move(env)) {}
  const EnvSpec& spec() const override { return env_->spec(); }
  int64_t rows() const override { return env_->rows(); }
  void reset(uint64_t seed, uint64_t first_row, EnvStep& out) override { env_->reset(seed, first_row, out); }
  void step(const Array& actions, EnvStep& out) override {
    env_->step(actions, out);
    const auto failed = out.failed.mutable_view<uint8_t>();
    if (std::ranges::find(failed, static_cast<uint8_t>(Failed::now)) == failed.end()) return;
    for (uint8_t& each : failed)
      if (each == 0) each = static_cast<uint8_t>(Failed::now);
  }
  void observe(EnvStep& out) override { env_->observe(out); }
  void set_active(int64_t row, bool active) override { env_->set_active(row, active); }
  std::string render(int64_t row) const override { return env_->render(row); }
  bool save(std::string& bytes) const override { return env_->save(bytes); }
  bool load(const std::string& bytes) override { return env_->load(bytes); }

 private:
  std::unique_ptr<Env> env_;
};

std::unique_ptr<Env> flaky(int64_t rows, const Flaky::Options& options = {}) {
  return std::make_unique<Batched<Flaky>>(Flaky::spec(), rows, options);
}

// Rows that only a reset of all of them starts.
class Together final : public Env {
 public:
  explicit Together(std::unique_ptr<Env> env) : env_(std::move(env)) {}
  const EnvSpec& spec() const override { return env_->spec(); }
  int64_t rows() const override { return env_->rows(); }
  void reset(uint64_t seed, uint64_t first_row, EnvStep& out) override { env_->reset(seed, first_row, out); }
  void step(const Array& actions, EnvStep& out) override { env_->step(actions, out); }
  void observe(EnvStep& out) override { env_->observe(out); }
  void set_active(int64_t row, bool active) override { env_->set_active(row, active); }
  std::string render(int64_t row) const override { return env_->render(row); }
  bool save(std::string&) const override { return false; }
  bool load(const std::string&) override { return false; }

 private:
  std::unique_ptr<Env> env_;
};

// Rows as in a vector environment: all are stepped, also those that are inactive, and if one fails, all that are active
// do. A row that is not stepped on its own plays on in episodes that nobody asked for.
class Joint final : public Env {
 public:
  Joint(int64_t rows, const Flaky::Options& options) : active_(static_cast<size_t>(rows), true) {
    for (int64_t row = 0; row < rows; ++row) {
      rows_.push_back(flaky(1, options));
      steps_.push_back(EnvStep::allocate(spec(), 1));
    }
  }
  const EnvSpec& spec() const override { return rows_.front()->spec(); }
  int64_t rows() const override { return static_cast<int64_t>(rows_.size()); }
  void reset(uint64_t, uint64_t, EnvStep&) override { FAIL("reset_as() is there"); }
  bool reset_as(uint64_t seed, std::span<const uint64_t> numbers, EnvStep& out) override {
    active_.assign(rows_.size(), true);
    for (size_t row = 0; row < rows_.size(); ++row) rows_[row]->reset(seed, numbers[row], steps_[row]);
    join(out);
    return true;
  }
  void step(const Array& actions, EnvStep& out) override {
    for (size_t row = 0; row < rows_.size(); ++row)
      rows_[row]->step(actions.slice(static_cast<int64_t>(row), static_cast<int64_t>(row) + 1), steps_[row]);
    join(out);
  }
  void observe(EnvStep&) override {}
  void set_active(int64_t row, bool active) override { active_[static_cast<size_t>(row)] = active; }
  std::string render(int64_t) const override { return ""; }
  bool save(std::string&) const override { return false; }
  bool load(const std::string&) override { return false; }

 private:
  void join(EnvStep& out) {
    const auto failed = [](const EnvStep& step) { return step.failed.view<uint8_t>()[0] == 1 || !step.errors.empty(); };
    const bool any = std::ranges::any_of(steps_, failed);
    out.errors.assign(any ? 1 : 0, "row 0: doomed");
    for (size_t row = 0; row < rows_.size(); ++row) {
      const EnvStep& from = steps_[row];
      out.rewards.mutable_view<float>()[row] = from.rewards.view<float>()[0];
      out.executed.mutable_view<int32_t>()[row] = from.executed.view<int32_t>()[0];
      out.terminated.mutable_view<uint8_t>()[row] = from.terminated.view<uint8_t>()[0];
      out.success.mutable_view<uint8_t>()[row] = from.success.view<uint8_t>()[0];
      const bool ended = from.terminated.view<uint8_t>()[0] != 0;  // also if the next episode could not begin
      const Failed result = !active_[row] ? Failed::idle : any && !ended ? Failed::now : Failed::no;
      out.failed.mutable_view<uint8_t>()[row] = static_cast<uint8_t>(result);
    }
  }

  std::vector<std::unique_ptr<Env>> rows_;
  std::vector<EnvStep> steps_;
  std::vector<bool> active_;
};

}  // namespace

TEST_CASE("episode_player: episodes that do not begin are tried once for each step, which the caller may stop") {
  struct NoStart : Flaky {
    using Flaky::Flaky;
    void reset(Rng&) {
      ++tries();
      throw std::runtime_error("does not start");
    }
    static int& tries() {
      static int count = 0;
      return count;
    }
  };
  NoStart::tries() = 0;
  auto env = std::make_unique<Batched<NoStart>>(Flaky::spec(), 1, Flaky::Options{});
  FirstAction policy(env->spec());
  EpisodePlayer player(std::move(env), 1, 5);
  CHECK(NoStart::tries() == 0);
  for (int tries = 1; tries < 5; ++tries) {
    player.step(policy);
    CHECK(NoStart::tries() == tries);
  }
  CHECK(player.summary().episodes == 0);
}

TEST_CASE("episode_player: failures by chance change neither the mean return nor the success rate") {
  const EpisodeSummary sound = play(flaky(10), 200);
  REQUIRE(sound.episodes == 200);
  REQUIRE(sound.success_rate == doctest::Approx(0.5).epsilon(0.2));
  Rng chance(3);
  const EpisodeSummary failing = play(flaky(10, {.fails = 0.02, .chance = &chance}), 200);
  CHECK(failing.episodes == 200);
  CHECK(failing.played > 270);  // of the long episodes more than half fail each time
  CHECK(failing.return_mean == sound.return_mean);
  CHECK(failing.length_mean == sound.length_mean);
  CHECK(failing.success_rate == sound.success_rate);
  CHECK(failing.last_error.ends_with("by chance"));
}

TEST_CASE("episode_player: an episode that fails each time is counted as failed, and is no success") {
  const EpisodeSummary sound = play(flaky(10), 100), doomed = play(flaky(10, {.doomed_fail = true}), 100);
  CHECK(doomed.ended() == 100);
  CHECK(doomed.failed > 8);
  CHECK(doomed.failed < 30);
  CHECK(doomed.success_rate < sound.success_rate);
  const double successes = 100 * doomed.success_rate;
  CHECK(successes == doctest::Approx(std::round(successes)));  // of all 100
  CHECK(doomed.return_mean ==
        doctest::Approx((4 * successes + 40 * (static_cast<double>(doomed.episodes) - successes)) /
                        static_cast<double>(doomed.episodes)));
  CHECK(failed_episodes_text(doomed.failed, doomed.ended(), doomed.last_error)
            .find("The return leaves them out, so it may be too good") != std::string::npos);
}

TEST_CASE("episode_player: an episode that takes those in the same process along fails alone") {
  const EpisodeSummary apart = play(flaky(16, {.doomed_fail = true}), 100);
  const EpisodeSummary together = play(std::make_unique<OneProcess>(flaky(16, {.doomed_fail = true})), 100);
  CHECK(together.failed == apart.failed);
  CHECK(together.episodes == apart.episodes);
  CHECK(together.return_mean == apart.return_mean);
}

TEST_CASE("episode_player: the rows of a world are played together, also when one of their episodes is played again") {
  Rng chance(5);
  const EpisodeSummary sound = play(flaky(12), 30, 4);
  const EpisodeSummary failing = play(flaky(12, {.fails = 0.01, .chance = &chance}), 30, 4);
  CHECK(failing.episodes == 30);
  CHECK(failing.played > 30);
  CHECK(failing.return_mean == sound.return_mean);
  const EpisodeSummary doomed = play(std::make_unique<OneProcess>(flaky(12, {.doomed_fail = true})), 36, 12);
  CHECK(doomed.ended() == 36);  // none is ever without those of its world
}

TEST_CASE("episode_player: an episode fails alone where rows are stepped together, for any number of rows") {
  const EpisodeSummary apart = play(flaky(1, {.doomed_fail = true}), 100);
  REQUIRE(apart.failed > 8);
  for (const int64_t rows : {1, 3, 7, 24, 100}) {
    CAPTURE(rows);
    const EpisodeSummary joint = play(std::make_unique<Joint>(rows, Flaky::Options{.doomed_fail = true}), 100);
    CHECK(joint.failed == apart.failed);
    CHECK(joint.episodes == apart.episodes);
    CHECK(joint.return_mean == apart.return_mean);
    CHECK(joint.success_rate == apart.success_rate);
  }
}

TEST_CASE("episode_player: many episodes taken along by neighbours do not end playing before some are played alone") {
  // Of 300 rows some fail in the reset each time, until episodes are played alone.
  const EpisodeSummary joint = play(std::make_unique<Joint>(300, Flaky::Options{.doomed_start = true}), 600);
  CHECK(joint.ended() == 600);
  CHECK(joint.failed > 60);
  CHECK(joint.failed < 140);
}

TEST_CASE("episode_player: each episode has one reset, and no row waits for the episodes of others") {
  for (const int64_t rows : {1, 8}) {
    uint64_t resets = 0, steps = 0;
    auto env = flaky(rows, {.resets = &resets});
    FirstAction policy(env->spec());
    EpisodePlayer player(std::move(env), 7, 160);
    for (; !player.complete(); ++steps) player.step(policy);
    CHECK(resets == 160);
    const auto of_all = static_cast<uint64_t>(std::llround(160 * player.summary().length_mean));
    CHECK(steps <= (of_all + 160) / static_cast<uint64_t>(rows) + 41);  // each begins in a step of its own
  }
}

TEST_CASE("episode_player: if rows have to begin together, the episodes are the same") {
  const EpisodeSummary apart = play(flaky(7), 50), together = play(std::make_unique<Together>(flaky(7)), 50);
  CHECK(together.episodes == 50);
  CHECK(together.return_mean == apart.return_mean);
  CHECK(together.return_std == apart.return_std);
  const EpisodeSummary doomed = play(flaky(7, {.doomed_fail = true}), 50),
                       doomed_together = play(std::make_unique<Together>(flaky(7, {.doomed_fail = true})), 50);
  CHECK(doomed.failed > 0);
  CHECK(doomed_together.failed == doomed.failed);
  CHECK(doomed_together.return_mean == doomed.return_mean);
}

TEST_CASE("episode_player: episodes that fail in their reset or in a step all count as failed") {
  for (const int32_t fails_from : {0, 1, 3})
    for (const bool together : {false, true}) {
      CAPTURE(fails_from);
      std::unique_ptr<Env> env = flaky(3, {.fails_from = fails_from});
      if (together) env = std::make_unique<Together>(std::move(env));
      FirstAction policy(env->spec());
      EpisodePlayer player(std::move(env), 7, 6);
      const auto play_on = [&] {
        while (!player.complete()) player.step(policy);
      };
      CHECK_THROWS_AS(play_on(), EnvironmentFailed);
      CHECK(player.summary().failed == 6);
      CHECK(player.summary().played == 24);
    }
}
