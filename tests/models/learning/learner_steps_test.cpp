#include <algorithm>
#include <cmath>

#include "algorithms/advantages/gae.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("learner: only the drawn columns of a super-batch and their valid steps are trained on") {
  RunConfig config = small_config();
  Pair a(config, token_spec()), b(config, token_spec());
  auto all = random_rollout(a.spec, *a.policy, 3, 4, 1);
  all->grid().valid.mutable_view<uint8_t>()[0 * 4 + 2] = 0;
  SuperBatch part = whole_batch(all);
  part.parts[0].indices = {1, 2};
  // A rollout with only these five samples.
  auto picked = random_rollout(b.spec, *b.policy, 5, 1, 1);
  const int64_t samples[] = {1, 5, 6, 9, 10};
  const auto pick = [&](const Array& from, Array& to) {
    for (int64_t i = 0; i < 5; ++i) {
      const size_t bytes = to.row_bytes();
      std::copy_n(from.data() + samples[i] * bytes, bytes, to.mutable_data() + i * bytes);
    }
  };
  pick(all->grid().observations.at("state"), picked->grid().observations.at("state"));
  for (auto member : {&Grid::actions, &Grid::log_probs, &Grid::values, &Grid::advantages, &Grid::returns})
    pick(all->grid().*member, picked->grid().*member);
  const auto staged = a.learner->stager()->stage(part);
  CHECK(staged->samples == 5);
  a.learner->update(*staged, 0.0);
  update_with(*b.learner, whole_batch(picked));
  CHECK(same_model(*a.learner, *b.learner));
}

TEST_CASE("learner: single samples give the same update as a rollout with exactly these steps") {
  RunConfig config = small_config();
  Pair a(config, token_spec()), b(config, token_spec());
  auto rollout = random_rollout(a.spec, *a.policy, 6, 3, 1);
  rollout->grid().valid.mutable_view<uint8_t>()[7] = 0;
  SuperBatch samples;
  samples.parts.push_back({rollout, {}, UnitKind::sample});
  for (int32_t i = 0; i < 18; ++i)
    if (i != 7) samples.parts[0].indices.push_back(i);
  CHECK(a.learner->stager()->stage(samples)->samples == 17);
  update_with(*a.learner, samples);
  update_with(*b.learner, whole_batch(rollout));
  CHECK(same_model(*a.learner, *b.learner));

  // Samples of two rollouts, compared with a rollout of only these samples.
  Pair c(config, token_spec()), d(config, token_spec());
  const auto other = random_rollout(a.spec, *a.policy, 4, 2, 2);
  samples.parts = {{rollout, {2, 9, 10}, UnitKind::sample}, {other, {5}, UnitKind::sample}};
  auto picked = random_rollout(a.spec, *a.policy, 4, 1, 3);
  const auto copy = [&](const Rollout& from, int64_t step, int64_t to) {
    const auto copy_step = [&](const Array& source, Array target) {
      std::copy_n(source.data() + step * target.row_bytes(), target.row_bytes(),
                  target.mutable_data() + to * target.row_bytes());
    };
    copy_step(from.grid().observations.at("state"), picked->grid().observations.at("state"));
    for (auto member : {&Grid::actions, &Grid::log_probs, &Grid::values, &Grid::advantages, &Grid::returns})
      copy_step(from.grid().*member, picked->grid().*member);
  };
  copy(*rollout, 2, 0);
  copy(*rollout, 9, 1);
  copy(*rollout, 10, 2);
  copy(*other, 5, 3);
  update_with(*c.learner, samples);
  update_with(*d.learner, whole_batch(picked));
  CHECK(same_model(*c.learner, *d.learner));
}

TEST_CASE("learner: an estimator that needs whole columns refuses single samples") {
  RunConfig config = small_config();
  config.algorithm.advantage = "vtrace";
  Pair pair(config, discrete_spec());
  const auto rollout = random_rollout(pair.spec, *pair.policy, 4, 2, 1);
  CHECK_THROWS_AS(pair.learner->stager()->stage({.samples = 2, .parts = {{rollout, {1, 4}, UnitKind::sample}}}),
                  InvariantError);
}

TEST_CASE("learner: the contents of a masked step do not affect other steps with V-trace") {
  RunConfig config = small_config();
  config.algorithm.advantage = "vtrace";
  Pair a(config, discrete_spec()), b(config, discrete_spec());
  const auto with_masked_step = [&](float garbage) {
    auto rollout = random_rollout(a.spec, *a.policy, 6, 2, 1);
    rollout->grid().valid.mutable_view<uint8_t>()[2 * 2 + 1] = 0;
    for (int64_t i = 0; i < 5; ++i)
      rollout->grid().observations.at("state").mutable_view<float>()[(2 * 2 + 1) * 5 + i] = garbage;
    for (auto member : {&Grid::rewards, &Grid::log_probs, &Grid::values, &Grid::next_values})
      (rollout->grid().*member).mutable_view<float>()[2 * 2 + 1] = garbage;
    return whole_batch(rollout);
  };
  CHECK(a.learner->stager()->stage(with_masked_step(1.0f))->samples == 11);
  CHECK(update_with(*a.learner, with_masked_step(1.0f)).steps == 1);
  CHECK(update_with(*b.learner, with_masked_step(nan())).steps == 1);
  CHECK(same_model(*a.learner, *b.learner));
}

namespace {

// In every third step the episode ended inside the chunk of two. `filler` is stored for decisions that were not
// executed.
SuperBatch cut_short_batch(Pair& pair, float filler) {
  const SuperBatch batch = episodes_batch(pair, 1, 0.1f);
  auto rollout = std::make_shared<Rollout>(*batch.parts[0].rollout);
  rollout->grid().executed = Array(DType::i32, {rollout->grid().steps(), rollout->grid().columns()});
  rollout->grid().log_probs = rollout->grid().log_probs.clone();
  rollout->grid().actions = rollout->grid().actions.clone();
  const auto executed = rollout->grid().executed.mutable_view<int32_t>();
  const int64_t dims = pair.spec.action.dims(), decisions = pair.spec.action.decisions();
  for (size_t i = 0; i < executed.size(); ++i) {
    executed[i] = i % 3 == 0 ? 1 : 2;
    for (int64_t d = executed[i] * dims; d < decisions; ++d) {
      const size_t at = i * static_cast<size_t>(decisions) + static_cast<size_t>(d);
      rollout->grid().log_probs.mutable_view<float>()[at] = filler;
      if (pair.spec.action.kind == ActionKind::continuous)
        rollout->grid().actions.mutable_view<float>()[at] = filler;
      else
        rollout->grid().actions.mutable_view<int32_t>()[at] = std::isnan(filler) ? 1'000'000 : 0;
    }
  }
  return whole_batch(rollout);
}

}  // namespace

TEST_CASE("learner: the numbers stored for decisions that were not executed do not change an update") {
  struct Choice {
    const char* advantage;
    const char* surrogate;
    const char* ratio;
    const char* correction;
    double kl_coef;
  };
  const Choice choices[] = {{"gae", "clip", "joint", "{}", 0},
                            {"gae", "clip", "per_dimension", "{}", 0.1},
                            {"gae", "clip", "per_dimension", R"({"is": "token"})", 0},
                            {"gae", "clip", "joint", R"({"is": "sequence"})", 0.1},
                            {"vtrace", "clip", "joint", "{}", 0},
                            {"gae", "gspo", "per_dimension", "{}", 0},
                            {"optimal_token_baseline", "clip", "per_dimension", "{}", 0},
                            {"optimal_token_baseline", "clip", "joint", "{}", 0}};
  for (const bool is_continuous : {false, true}) {
    for (const Choice& choice : choices) {
      if (is_continuous && std::string(choice.advantage) == "optimal_token_baseline") continue;
      CAPTURE(is_continuous);
      CAPTURE(choice.advantage);
      CAPTURE(choice.surrogate);
      CAPTURE(choice.ratio);
      CAPTURE(choice.correction);
      RunConfig config = small_config();
      config.trainer.epochs = 2;
      config.trainer.minibatches = 2;
      config.trainer.micro_batch = 5;
      config.algorithm.advantage = choice.advantage;
      config.algorithm.surrogate = choice.surrogate;
      config.algorithm.ratio = choice.ratio;
      config.algorithm.rollout_correction = choice.correction;
      config.algorithm.kl_coef = choice.kl_coef;
      config.algorithm.entropy_coef = 0.01;
      const EnvSpec spec = is_continuous ? spec_of(ActionKind::continuous, {0, 0}, 2) : token_spec();
      Pair zeros(config, spec), nans(config, spec), all(config, spec);
      const UpdateReport a = update_with(*zeros.learner, cut_short_batch(zeros, 0.0f));
      const UpdateReport b = update_with(*nans.learner, cut_short_batch(nans, nan()));
      update_with(*all.learner, episodes_batch(all, 1, 0.1f));
      CHECK(a.steps > 0);
      CHECK(a.metrics == b.metrics);
      for (const auto& [name, value] : a.metrics) CHECK_MESSAGE(std::isfinite(value), name);
      CHECK(same_model(*zeros.learner, *nans.learner));
      CHECK_FALSE(same_model(*zeros.learner, *all.learner));
    }
  }
}

TEST_CASE("learner: if all decisions were executed, a rollout with `executed` gives the same update as one without") {
  for (const char* ratio : {"joint", "per_dimension"}) {
    RunConfig config = small_config();
    config.algorithm.ratio = ratio;
    Pair with(config, token_spec()), without(config, token_spec());
    const SuperBatch batch = without.batch(1);
    auto rollout = std::make_shared<Rollout>(*batch.parts[0].rollout);
    rollout->grid().executed = Array(DType::i32, {rollout->grid().steps(), rollout->grid().columns()});
    std::ranges::fill(rollout->grid().executed.mutable_view<int32_t>(), 2);
    update_with(*with.learner, whole_batch(rollout));
    update_with(*without.learner, batch);
    CHECK(same_model(*with.learner, *without.learner));
  }
}

TEST_CASE("learner: a rollout with more executed steps than a chunk has is refused") {
  Pair pair(small_config(), token_spec());
  const SuperBatch batch = pair.batch(1);
  auto rollout = std::make_shared<Rollout>(*batch.parts[0].rollout);
  rollout->grid().executed = Array(DType::i32, {rollout->grid().steps(), rollout->grid().columns()});
  rollout->grid().executed.mutable_view<int32_t>()[3] = 3;
  CHECK_THROWS_AS(pair.learner->stager()->stage(whole_batch(rollout)), InvariantError);
}
