// Updates whose shards are computed by several ranks: the number of ranks does not change a bit of the result.

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/torch_test.h"

#include "models/shards/gradient_pieces.h"
#include "models/shards/parameter_slices.h"
#include "models/torch/network.h"
#include "models/weights/weight_block.h"
#include "tests/models/learning/recurrent_oracle.h"
#include "tests/support/resident.h"

#include "tests/models/torch/learning/shards.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Updates = std::vector<std::vector<SuperBatch>>;  // by update, then by shard

std::vector<SuperBatch> random_shards(const RunConfig& config, const EnvSpec& spec, uint64_t seed) {
  std::vector<SuperBatch> result;
  for (int64_t shard = 0; shard < 4; ++shard)  // of different sizes, so that some have fewer micro-batches
    result.push_back(whole_batch(rollout_of(config, spec, 4 + shard % 3, 4, 4 * seed + static_cast<uint64_t>(shard))));
  return result;
}

Updates random_updates(const RunConfig& config, const EnvSpec& spec) {
  Updates result;
  for (uint64_t update = 0; update < 3; ++update) result.push_back(random_shards(config, spec, update));
  return result;
}

std::vector<SuperBatch> random_recurrent_shards(uint64_t update) {
  std::vector<SuperBatch> result;
  for (uint64_t shard = 0; shard < 4; ++shard)
    result.push_back(
        whole_batch(random_recurrent_rollout(8, 3 + static_cast<int64_t>(shard), 4, 2 * kSize, 4 * update + shard)));
  return result;
}

std::unique_ptr<Learner> rank_of(RunConfig config, const EnvSpec& spec, bool device_form, int64_t zero) {
  config.trainer = with_zero(config.trainer, zero);
  return learner_of(with_shards(config, 4), spec, device_form);
}

std::vector<UpdateReport> check_ranks(const RunConfig& config, const EnvSpec& spec, const Updates& updates,
                                      bool device_form) {
  return test::check_ranks([&](int64_t zero) { return rank_of(config, spec, device_form, zero); }, updates,
                           piece_elements(config.trainer));
}

EnvSpec image_spec() {
  EnvSpec spec = discrete_spec();
  spec.observations = {{"state", DType::f32, {2, 5, 5}}};
  return spec;
}

RunConfig network_config(const std::string& net) {
  RunConfig config = shard_config();
  config.model.kind = "net";
  config.model.net = net;
  config.model.normalize_observations = false;  // images are not
  return config;
}

constexpr const char* kConv = R"({"encoders": {"state": {"kind": "conv", "layers": [{"channels": 4, "kernel": 2},
                                  {"channels": 5, "kernel": 2}], "hidden": [9]}}, "trunk": [8]})";
constexpr const char* kTowers = R"({"encoders": {"*": {"kind": "mlp", "hidden": [9]}}, "trunk": [8],
                                    "value_trunk": [7]})";
constexpr const char* kLstm = R"({"trunk": [8], "core": {"kind": "lstm", "size": 6}})";

// A network that knows whether one of them computes a backward pass.
class WatchedNetwork final : public Network {
 public:
  WatchedNetwork(std::unique_ptr<Network> network, bool& computes)
      : network_(std::move(network)), computes_(computes) {}

  NetworkOutput forward(const NetworkInput& input, bool backward_follows) override {
    return network_->forward(input, backward_follows);
  }
  at::Tensor values(const NetworkInput& input) override { return network_->values(input); }
  void backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) override {
    computes_ = true;
    network_->backward(policy_gradients, value_gradients);
    computes_ = false;
  }
  void gradients_complete_to(std::function<void(ElementRange)> complete) override {
    network_->gradients_complete_to(std::move(complete));
  }
  void weights_changed() override { network_->weights_changed(); }

 private:
  std::unique_ptr<Network> network_;
  bool& computes_;
};

}  // namespace

TEST_CASE("ranks: any division of the shards gives the same bytes") {
  for (const bool device_form : {false, true}) {
    for (const EnvSpec& spec : {continuous_spec(), discrete_spec()}) {
      for (const int64_t micro_batch : {0, 3}) {
        CAPTURE(device_form);
        CAPTURE(micro_batch);
        RunConfig config = shard_config();
        config.trainer.minibatches = 3;
        config.trainer.micro_batch = micro_batch;
        for (const UpdateReport& report : check_ranks(config, spec, random_updates(config, spec), device_form))
          CHECK(report.steps == 9);
      }
    }
  }
}

TEST_CASE("ranks: with V-trace, corrections, sequences and value epochs") {
  std::vector<RunConfig> configs(4, shard_config());
  configs[0].algorithm.advantage = "vtrace";
  configs[1].algorithm.rollout_correction = R"({"is": "token"})";
  configs[2].algorithm.advantage = "grpo";
  configs[2].algorithm.aggregation = "seq-mean-token-mean";
  configs[3].trainer.value_epochs = 5;
  for (const bool device_form : {false, true}) {
    for (const RunConfig& config : configs) {
      CAPTURE(device_form);
      CAPTURE(config.algorithm.advantage);
      const EnvSpec spec = discrete_spec();
      check_ranks(config, spec, random_updates(config, spec), device_form);
    }
  }
}

TEST_CASE("ranks: with recurrent networks") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = recurrent_config("lstm", 8, 4, 1);
    config.trainer.minibatches = 2;
    config.trainer.micro_batch = 8;
    Updates updates;
    for (uint64_t update = 0; update < 2; ++update) updates.push_back(random_recurrent_shards(update));
    check_ranks(config, discrete_spec(), updates, device_form);
  }
}

TEST_CASE("ranks: with convolutions, and with two trunks") {
  for (const bool device_form : {false, true}) {
    for (const auto& [net, spec] : {std::pair(kConv, image_spec()), std::pair(kTowers, discrete_spec())}) {
      CAPTURE(device_form);
      CAPTURE(net);
      RunConfig config = network_config(net);
      config.trainer.minibatches = 2;
      config.trainer.micro_batch = 5;
      check_ranks(config, spec, random_updates(config, spec), device_form);
    }
  }
}

TEST_CASE("ranks: all pieces of gradients are said while the network computes the backward pass") {
  const std::vector<std::pair<const char*, EnvSpec>> networks = {
      {nullptr, discrete_spec()}, {kConv, image_spec()}, {kTowers, discrete_spec()}, {kLstm, discrete_spec()}};
  for (const bool device_form : {false, true}) {
    for (const auto& [net, spec] : networks) {
      CAPTURE(device_form);
      CAPTURE(net == nullptr ? "mlp" : net);
      RunConfig config = net == nullptr ? shard_config() : network_config(net);
      if (net == kLstm) {
        config.rollout.length = 8;
        config.model.sequence = 4;
        config.model.burn_in = 1;
      }
      bool computes = false;
      const NetworkDefinition inner = define_network(config.model, spec);
      const auto watched = std::make_shared<const NetworkDefinition>(
          NetworkDefinition{inner.layout, [&](const DeviceWeights& weights) {
                              return std::make_unique<WatchedNetwork>(inner.make(weights), computes);
                            }});
      Ranks ranks(
          [&] {
            return make_network_learner(with_shards(config, 4), spec, {.network = watched, .device_form = device_form});
          },
          {2, 2});
      size_t early = 0;
      ranks.on_say = [&] { early += computes; };
      ranks.update(net == kLstm ? random_recurrent_shards(0) : random_shards(config, spec, 1));
      const size_t elements = ranks.learners.front()->trained_elements();
      const size_t pieces = GradientPieces(elements, piece_elements(config.trainer)).count();
      CHECK(pieces > 2);
      CHECK(early == 2 * 3 * pieces);  // of two ranks, in the steps of three epochs
    }
  }
}

TEST_CASE("ranks: with trainer.zero 2 a rank has memory for the gradients of its slice, with 1 for all") {
  const EnvSpec spec = discrete_spec();
  const std::vector<SuperBatch> shards = random_shards(shard_config(), spec, 1);
  for (const int64_t micro_batch : {0, 8}) {
    for (const std::vector<size_t>& counts : {std::vector<size_t>{2, 2}, {1, 1, 1, 1}}) {
      for (const int64_t zero : {1, 2}) {
        CAPTURE(micro_batch);
        CAPTURE(counts.size());
        CAPTURE(zero);
        RunConfig config = shard_config();
        config.model.hidden = {16384, 64};  // whose first weights take little time
        config.trainer.micro_batch = micro_batch;
        config.trainer.epochs = 1;
        config.trainer.bucket_bytes = 1 << 18;
        config.trainer = with_zero(config.trainer, zero);
        std::vector<const DeviceWeights*> weights;
        const NetworkDefinition inner = define_network(config.model, spec);
        const auto network = std::make_shared<const NetworkDefinition>(
            NetworkDefinition{inner.layout, [&](const DeviceWeights& of_rank) {
                                weights.push_back(&of_rank);
                                return inner.make(of_rank);
                              }});
        Ranks ranks([&] { return make_network_learner(with_shards(config, 4), spec, {.network = network}); }, counts,
                    piece_elements(config.trainer));
        ranks.update(shards);
        const size_t elements = ranks.learners.front()->trained_elements(), bytes = elements * sizeof(float);
        REQUIRE(weights.size() == counts.size());
        for (size_t rank = 0; rank < counts.size(); ++rank) {
          const size_t slice = ParameterSlices(elements, counts.size()).slice(rank).size() * sizeof(float);
          const size_t resident = resident_bytes(weights[rank]->gradients().const_data_ptr<float>(), bytes);
          constexpr size_t kHugePage = 2 << 20;  // where the system uses them for all memory
          REQUIRE(slice + kHugePage < bytes);
          CHECK((zero == 1 ? resident >= bytes : resident >= slice && resident <= slice + kHugePage));
        }
      }
    }
  }
}

TEST_CASE("ranks: the KL of all samples ends the epochs on every rank, and moves its coefficient") {
  for (const bool device_form : {false, true}) {
    RunConfig config = shard_config();
    config.algorithm.kl_controller = "adaptive";
    config.algorithm.target_kl = 0.001;
    config.trainer.epochs = 4;
    const EnvSpec spec = discrete_spec();
    const std::vector<UpdateReport> reports = check_ranks(config, spec, random_updates(config, spec), device_form);
    CHECK(std::ranges::any_of(reports, [](const UpdateReport& report) { return report.epochs < 4; }));
  }
}

TEST_CASE("ranks: a shard without samples, and an update without any") {
  for (const bool device_form : {false, true}) {
    const RunConfig config = shard_config();
    const EnvSpec spec = continuous_spec();
    Updates updates = random_updates(config, spec);
    updates[0][1] = updates[1][0] = updates[1][1] = updates[1][3] = SuperBatch{};
    std::ranges::fill(updates[2], SuperBatch{});
    const std::vector<UpdateReport> reports = check_ranks(config, spec, updates, device_form);
    CHECK(reports[1].steps == 3);
    CHECK(reports[2].empty());
  }
}

TEST_CASE("ranks: all of them skip a step when one shard is not finite") {
  for (const bool device_form : {false, true}) {
    for (const char* what : {"returns", "observations"}) {
      for (const size_t bad : {0, 2, 3}) {
        CAPTURE(device_form);
        CAPTURE(what);
        CAPTURE(bad);
        RunConfig config = shard_config();
        config.model.normalize_returns = false;
        config.trainer.minibatches = 2;
        const EnvSpec spec = discrete_spec();
        Updates updates = random_updates(config, spec);
        const auto rollout = rollout_of(config, spec, 4, 4, 77);
        Array& array =
            std::string(what) == "returns" ? rollout->grid().returns : rollout->grid().observations.at("state");
        array.mutable_view<float>()[3] = std::numeric_limits<float>::quiet_NaN();
        updates[1][bad] = whole_batch(rollout);
        const std::vector<UpdateReport> reports = check_ranks(config, spec, updates, device_form);
        CHECK(reports[1].skipped > 0);
        CHECK(reports[2].skipped == 0);
      }
    }
  }
}

TEST_CASE("ranks: an update that is abandoned leaves nothing in the one that is made in its place") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = shard_config();
    config.algorithm.kl_controller = "adaptive";
    config.trainer.minibatches = 2;
    config.trainer.micro_batch = 3;
    const EnvSpec spec = continuous_spec();
    for (const size_t rounds : {0, 1, 2, 7, 8})
      for (const int64_t zero : {0, 1, 2})
        check_abandoned([&](int64_t z) { return rank_of(config, spec, device_form, z); },
                        {random_shards(config, spec, 1), random_shards(config, spec, 2)}, rounds, zero,
                        piece_elements(config.trainer));
  }
}

TEST_CASE("ranks: there is a round at the beginning, one for each epoch, and one for each micro-batch") {
  RunConfig config = shard_config();
  config.trainer.minibatches = 2;
  const EnvSpec spec = discrete_spec();
  const WeightBlock weights(*learner_of(config, spec, false)->saved_signature());
  const size_t pieces = GradientPieces(weights.trained().size(), piece_elements(config.trainer)).count();
  CHECK(pieces > 3);
  Ranks ranks([&] { return learner_of(with_shards(config, 4), spec, false); }, {2, 2});
  ranks.update(random_shards(config, spec, 1));
  CHECK(ranks.rounds == 1 + 3 * (1 + 2));
  CHECK(ranks.pieces == 1 + 3 * (1 + 2 * (pieces + 1)));  // those of the gradients, and one of the losses
}

TEST_CASE("ranks: what is said and delivered out of turn is refused") {
  const RunConfig config = shard_config();
  const EnvSpec spec = discrete_spec();
  const auto learner = learner_of(with_shards(config, 2), spec, false);
  learner->hold_shards({1, 1});
  std::vector<RankPart> said;
  learner->say_to([&](const RoundPiece&, RankPart part) { said.push_back(std::move(part)); });
  const SuperBatch batch = whole_batch(rollout_of(config, spec, 4, 4, 1));
  const auto staged = learner->stager()->stage(batch);
  CHECK_THROWS_AS(learner->deliver({0, 0}, {}), InvariantError);
  learner->begin(*staged, 0);
  CHECK_THROWS_AS(learner->hold_shards({0, 1}), InvariantError);
  CHECK((learner->advance() == Advance::waits));
  CHECK((learner->advance() == Advance::waits));
  REQUIRE(said.size() == 1);
  CHECK(said[0].shards == ShardRange{1, 1});
  CHECK_THROWS_AS(learner->deliver({1, 0}, {}), InvariantError);  // of the next round
  CHECK_THROWS_AS(learner->update(*staged, 0), InvariantError);
}
