// Updates of answers whose shards are computed by several ranks: the number of ranks does not change a bit of the
// result.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "models/learning/answers/started_answers.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/answers/answer_shards.h"
#include "tests/models/learning/answers/messages.h"
#include "tests/models/lm/lora_models.h"
#include "tests/models/shards/ranks.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Updates = std::vector<std::vector<SuperBatch>>;  // by update, then by shard
using Change = std::function<void(Answers&)>;          // of the answers of a shard

const LmShape& rank_shape() {
  static const LmShape shape = tiny_shape(LmFamily::llama, 3);
  return shape;
}

ShardSettings rank_settings() {
  ShardSettings settings{rank_shape(), shard_config()};
  settings.config.trainer.minibatches = 2;
  settings.config.trainer.bucket_bytes = 4000;
  return settings;
}

// Answers to 5 to 8 prompts in each of four shards.
Updates random_updates(uint64_t count = 3, const Change& change = {}) {
  Updates result;
  for (uint64_t update = 0; update < count; ++update) {
    std::vector<SuperBatch>& shards = result.emplace_back();
    for (uint64_t shard = 0; shard < 4; ++shard) {
      const auto rollout =
          random_answers(5 + static_cast<int64_t>((shard + update) % 4), rank_shape().vocabulary, 10 * update + shard);
      if (change) change(std::get<Answers>(rollout->body));
      shards.push_back(whole(rollout));
      shards.back().index = 8 + update;  // so that the tokens, of versions 1 to 9, have several lags
    }
  }
  return result;
}

std::unique_ptr<Learner> rank_of(ShardSettings settings, int64_t zero) {
  settings.config.trainer = with_zero(settings.config.trainer, zero);
  return learner_of(settings, 4);
}

std::vector<UpdateReport> check_ranks(const ShardSettings& settings, const Updates& updates) {
  return test::check_ranks([&](int64_t zero) { return rank_of(settings, zero); }, updates,
                           piece_elements(settings.config.trainer));
}

std::vector<UpdateReport> check_ranks(const ShardSettings& settings) {
  const std::vector<UpdateReport> reports = check_ranks(settings, random_updates());
  for (const UpdateReport& report : reports) CHECK(report.steps > 0);
  return reports;
}

}  // namespace

TEST_CASE("answer_ranks: any division of the shards gives the same bytes") {
  std::vector<double> micro_batches;
  for (const int64_t micro_batch_tokens : {0, 15}) {
    CAPTURE(micro_batch_tokens);
    ShardSettings settings = rank_settings();
    settings.micro_batch_tokens = micro_batch_tokens;
    micro_batches.push_back(0);
    for (const UpdateReport& report : check_ranks(settings)) {
      CHECK(report.steps == 4);
      CHECK(std::ranges::any_of(report.metrics,
                                [](const auto& metric) { return metric.first.starts_with("rollout_kl_lag_"); }));
      micro_batches.back() += report.metrics.at("micro_batches");
    }
  }
  CHECK(micro_batches[1] > micro_batches[0]);
}

TEST_CASE("answer_ranks: with critics, their own learning rates, and updates of the value function alone") {
  for (const CriticKind critic : {CriticKind::shared, CriticKind::separate}) {
    for (const int64_t value_only : {0, 1}) {
      CAPTURE(value_only);
      ShardSettings settings = rank_settings();
      settings.model.critic = critic;
      settings.micro_batch_tokens = 15;
      settings.config.algorithm.advantage = critic == CriticKind::shared && value_only == 0 ? "vtrace" : "gae";
      settings.config.algorithm.bootstrap_cut_answers = true;
      settings.config.trainer.value_lr = 0.01;
      settings.config.trainer.value_epochs = 3;
      settings.config.trainer.value_only_updates = value_only;
      check_ranks(settings);
    }
  }
}

TEST_CASE("answer_ranks: with adapters and a critic of their own learning rate") {
  ShardSettings settings = rank_settings();
  settings.model = lora_model(rank_shape(), 4, 8);
  settings.model.critic = CriticKind::shared;
  settings.config.algorithm.advantage = "gae";
  settings.config.trainer.value_lr = 0.01;
  check_ranks(settings);
}

TEST_CASE("answer_ranks: with each aggregation, and what estimators and corrections compute of all answers") {
  struct Case {
    const char *aggregation, *advantage, *correction, *proximal;
  };
  for (const Case& of : {Case{"token-mean", "reinforce_plus_plus", "{}", "computed"},
                         Case{"seq-mean-token-sum", "reinforce_plus_plus_baseline",
                              R"({"is": "token", "batch_normalize": true})", "computed"},
                         Case{"seq-mean-token-mean", "gpg", R"({"is": "sequence"})", "interpolated"},
                         Case{"seq-mean-token-sum-norm", "optimal_token_baseline", R"({"is": "token"})", "computed"},
                         Case{"token-mean", "rloo", R"({"is": "token"})", "interpolated"}}) {
    CAPTURE(of.advantage);
    ShardSettings settings = rank_settings();
    settings.config.algorithm.aggregation = of.aggregation;
    settings.config.algorithm.advantage = of.advantage;
    settings.config.algorithm.rollout_correction = of.correction;
    settings.config.algorithm.proximal = of.proximal;
    check_ranks(settings);
  }
}

TEST_CASE("answer_ranks: with surrogates that compare tokens, and with KL and entropy in the loss") {
  for (const char* surrogate : {"clip_cov", "kl_cov", "gspo"}) {
    CAPTURE(surrogate);
    ShardSettings settings = rank_settings();
    settings.config.algorithm.surrogate = surrogate;
    if (surrogate == std::string("clip_cov"))  // draws half of the tokens, nearly all of which are candidates
      settings.config.algorithm.surrogate_params = R"({"cov_low": -50, "cov_high": 50, "fraction": 0.5})";
    settings.config.algorithm.entropy_coef = 0.01;
    settings.config.algorithm.kl_coef = 0.1;
    settings.config.algorithm.kl_controller = "adaptive";
    check_ranks(settings);
  }
}

TEST_CASE("answer_ranks: with a reference whose coefficient follows the KL of all answers") {
  for (const char* place : {"reward", "loss"}) {
    for (const char* computed_by : {"trainer", "scorers"}) {
      CAPTURE(place);
      CAPTURE(computed_by);
      ShardSettings settings = rank_settings();
      settings.config.reference.model = "start";
      settings.config.reference.place = place;
      settings.config.reference.computed_by = computed_by;
      settings.config.reference.kl_coef = 0.1;
      settings.config.reference.kl_controller = "adaptive";
      settings.config.reference.kl_horizon = 100;
      const auto by_scorers = [&](Answers& answers) {
        if (settings.config.reference.by_scorers()) answers.reference = answers.sampled.log_probs;
      };
      const std::vector<UpdateReport> reports = check_ranks(settings, random_updates(3, by_scorers));
      CHECK(reports[2].metrics.at("reference_kl_coef") != 0.1);
    }
  }
}

TEST_CASE("answer_ranks: with an exact KL to the reference, of all weights and of adapters") {
  for (const bool lora : {false, true}) {
    CAPTURE(lora);
    ShardSettings settings = rank_settings();
    if (lora) settings.model = lora_model(rank_shape(), 4, 8);
    settings.micro_batch_tokens = 15;
    settings.config.reference.model = "start";
    settings.config.reference.place = "loss";
    settings.config.reference.kl = "full";
    settings.config.reference.kl_coef = 1;
    const std::vector<UpdateReport> reports = check_ranks(settings);
    CHECK(reports[2].metrics.at("reference_kl") != 0);
  }
}

TEST_CASE("answer_ranks: with answers and tokens that have no loss") {
  ShardSettings settings = rank_settings();
  settings.config.algorithm.mask_cut_answers = true;
  Updates updates = random_updates();
  for (size_t update = 0; update < updates.size(); ++update) updates[update][update].least_version = 7;
  check_ranks(settings, updates);
  std::ranges::for_each(updates[1], [](SuperBatch& shard) { shard.least_version = 100; });
  CHECK(check_ranks(settings, updates)[1].empty());
}

TEST_CASE("answer_ranks: a shard without answers, and an update without any") {
  const ShardSettings settings = rank_settings();
  Updates updates = random_updates();
  updates[0][1] = updates[1][0] = updates[1][1] = updates[1][3] = SuperBatch{.index = 8};
  std::ranges::fill(updates[2], SuperBatch{.index = 8});
  const std::vector<UpdateReport> reports = check_ranks(settings, updates);
  CHECK(reports[1].steps > 0);
  CHECK(reports[2].empty());
}

TEST_CASE("answer_ranks: all of them skip a step when one shard is not finite") {
  for (const size_t bad : {0, 2, 3}) {
    for (const bool reward : {true, false}) {
      CAPTURE(bad);
      CAPTURE(reward);
      const ShardSettings settings = rank_settings();
      Updates updates = random_updates();
      const auto rollout = random_answers(5, rank_shape().vocabulary, 77);
      auto& answers = std::get<Answers>(rollout->body);
      (reward ? answers.rewards : answers.sampled.log_probs).mutable_view<float>()[1] =
          std::numeric_limits<float>::quiet_NaN();
      updates[1][bad] = whole(rollout);
      const std::vector<UpdateReport> reports = check_ranks(settings, updates);
      CHECK(reports[1].skipped > 0);
      CHECK(reports[2].skipped == 0);
    }
  }
}

TEST_CASE("answer_ranks: with several turns, whose ends have rewards, and with messages") {
  ShardSettings settings = rank_settings();
  settings.model.critic = CriticKind::shared;
  settings.config.algorithm.advantage = "gae";
  Updates updates;
  for (uint64_t update = 0; update < 2; ++update) {
    std::vector<SuperBatch>& shards = updates.emplace_back();
    for (uint64_t shard = 0; shard < 4; ++shard) {
      const auto rollout = random_answers(6, rank_shape().vocabulary, 4 * update + shard);
      if (shard != 1) with_messages(rollout, rank_shape().vocabulary, shard);
      auto& answers = std::get<Answers>(rollout->body);
      if (shard > 1)
        answers.turn_rewards = Array::of(std::vector<float>(static_cast<size_t>(answers.sampled.tokens.size()), 0.25f));
      shards.push_back(whole(rollout));
    }
  }
  check_ranks(settings, updates);
}

TEST_CASE("answer_ranks: an update that is abandoned leaves nothing in the one that is made in its place") {
  ShardSettings settings = rank_settings();
  settings.micro_batch_tokens = 15;
  settings.model.critic = CriticKind::separate;
  settings.config.algorithm.advantage = "gae";
  settings.config.reference.model = "start";
  settings.config.reference.kl_controller = "adaptive";
  settings.config.reference.kl_horizon = 100;
  for (const size_t rounds : {0, 1, 2, 7, 8})
    for (const int64_t zero : {0, 1, 2})
      check_abandoned([&](int64_t z) { return rank_of(settings, z); }, random_updates(2), rounds, zero,
                      piece_elements(settings.config.trainer));
}

TEST_CASE("answer_ranks: there is a round at the beginning, and one for each micro-batch") {
  const ShardSettings settings = rank_settings();
  Ranks ranks([&] { return learner_of(settings, 4); }, {2, 2});
  ranks.update(random_updates(1).front());
  CHECK(ranks.rounds == 1 + 2 * 2);
}

TEST_CASE("answer_ranks: one of them makes a warm-up step as if it had all shards") {
  const ShardSettings settings = rank_settings();
  const auto one = learner_of(settings, 4), rank = learner_of(settings, 4);
  rank->hold_shards({1, 2});
  const SuperBatch demonstrations = random_updates(1).front().front();
  for (int step = 0; step < 2; ++step)
    CHECK(rank->imitate(*rank->stager()->stage(demonstrations), 0.1) ==
          one->imitate(*one->stager()->stage(demonstrations), 0.1));
  check_equal(rank->save(), one->save());
}

TEST_CASE("answer_ranks: answers that are told are the same, and bytes of something else are refused") {
  const auto rollout = with_messages(random_answers(6, rank_shape().vocabulary, 5), rank_shape().vocabulary, 1);
  auto batch = gather_answers(whole(rollout));
  batch->index = 7;
  mask_cut_answers(*batch);
  AnswerStart start;
  start.log_probs.assign(batch->tokens.size(), -1.5f);
  start.final_values.assign(batch->rewards.size(), 0.5f);
  const Array bytes = bytes_of(*batch, start);
  const StartedAnswers told = started_answers(bytes);
  CHECK(told.batch.index == 7);
  CHECK(told.batch.samples == batch->samples);
  CHECK(told.batch.tokens == batch->tokens);
  CHECK(told.batch.messages == batch->messages);
  CHECK(told.batch.kept == batch->kept);
  CHECK(told.batch.rewards == batch->rewards);
  CHECK(told.start.log_probs == start.log_probs);
  CHECK(told.start.final_values == start.final_values);
  CHECK(told.start.values.empty());
  CHECK((bytes_of(told.batch, told.start) == bytes));
  for (const int64_t size : {int64_t{0}, int64_t{7}, int64_t{30}, bytes.size() - 1})
    CHECK_THROWS_AS(started_answers(bytes.slice(0, size)), InvariantError);
  std::vector<uint8_t> more(bytes.view<uint8_t>().begin(), bytes.view<uint8_t>().end());
  more.push_back(0);
  CHECK_THROWS_AS(started_answers(Array::of(more)), InvariantError);
}
