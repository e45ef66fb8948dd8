#include "models/torch/replica.h"

#include <algorithm>

#include "models/torch/learning/network_learner.h"
#include "tests/models/learning/batches.h"
#include "tests/support/torch_test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

bool all_zero(Replica& replica) {
  return std::ranges::all_of(replica.weights.parameters(), [](float x) { return x == 0.0f; }) &&
         !replica.device.parameters().any().item<bool>();
}

}  // namespace

TEST_CASE("replica: initial weights are drawn when they are first required, also on the device") {
  const RunConfig config = small_config();
  const EnvSpec spec = continuous_spec();
  for (const bool own_memory : {false, true}) {
    Replica replica(config, spec, at::kCPU, /*with_gradients=*/true, own_memory);
    CHECK(all_zero(replica));
    replica.require_weights();
    CHECK((replica.weights.save() == initial_weights(config.model, spec, config.seed).save()));
    const auto device = floats_of(replica.device.parameters());
    CHECK(std::ranges::equal(device, replica.weights.parameters()));
  }
}

TEST_CASE("replica: if weights were loaded, no initial weights are drawn") {
  const RunConfig config = small_config();
  const EnvSpec spec = continuous_spec();
  const WeightBlock others = initial_weights(config.model, spec, config.seed + 1);
  for (const bool as_snapshot : {false, true}) {
    Replica replica(config, spec, at::kCPU, /*with_gradients=*/true, /*own_memory=*/true);
    if (as_snapshot)
      replica.load(*others.snapshot({0, 1}));
    else
      replica.load(others.save());
    replica.require_weights();
    CHECK((replica.weights.save() == others.save()));
    CHECK(std::ranges::equal(floats_of(replica.device.parameters()), replica.weights.parameters()));
  }
}

TEST_CASE("replica: after refused weights the initial weights are drawn") {
  const RunConfig config = small_config();
  const EnvSpec spec = continuous_spec();
  Replica replica(config, spec, at::kCPU, /*with_gradients=*/true);
  CHECK_THROWS_AS(replica.load(std::map<std::string, Array>()), ConfigError);
  CHECK(all_zero(replica));
  replica.require_weights();
  CHECK((replica.weights.save() == initial_weights(config.model, spec, config.seed).save()));
}

TEST_CASE("replica: a learner starts with the weights of its seed, whether it first saves, publishes or trains") {
  const RunConfig config = small_config();
  const EnvSpec spec = discrete_spec();
  const auto weights = initial_weights(config.model, spec, config.seed).save();
  for (const bool device_form : {false, true}) {
    const LearnerOptions options = {.device_form = device_form};
    const auto saved = make_network_learner(config, spec, options);
    CHECK((saved->save().model == weights));
    const auto published = make_network_learner(config, spec, options);
    WeightBlock block(*published->published_signature());
    block.load(*published->snapshot({0, 1}));
    CHECK((block.save() == weights));
    const auto policy = make_policy(config, spec);
    const SuperBatch batch = whole_batch(random_rollout(spec, *policy, 4, 3, 1));
    const auto trained = make_network_learner(config, spec, options);
    update_with(*trained, batch);
    update_with(*saved, batch);
    CHECK((trained->save().model == saved->save().model));
  }
}
