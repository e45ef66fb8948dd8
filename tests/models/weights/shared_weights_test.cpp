// Weights, snapshots and saved states that share memory, and steps that do not write to it.

#include <cmath>
#include <limits>

#include "models/learning/optimizer.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

Signature signature_of(TensorGroup second) {
  return {{{TensorGroup::policy, "a", {3, 7}, DType::f32}, {second, "b", {5}, DType::f32}}};
}

WeightBlock block_of(TensorGroup second = TensorGroup::value, uint64_t seed = 1) {
  WeightBlock block(signature_of(second));
  for (const char* name : {"a", "b"}) {
    Rng rng(derive_key(seed, name));
    for (float& x : block.floats(name)) x = rng.normal();
  }
  return block;
}

// As many as the block has bytes, laid out as it.
Array gradients_of(WeightBlock& block, uint64_t seed) {
  Array result(DType::u8, {static_cast<int64_t>(block.signature()->total_bytes())});
  auto* floats = reinterpret_cast<float*>(result.mutable_data());
  Rng rng(derive_key(seed, "gradients"));
  for (size_t i = 0; i < block.parameter_count(); ++i) {
    const int64_t count = block.signature()->tensors[i].shape.elements();
    for (int64_t j = 0; j < count; ++j) floats[block.parameter_offset(i) + static_cast<size_t>(j)] = rng.normal();
  }
  return result;
}

std::span<const float> floats_of(const Array& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.bytes() / sizeof(float)};
}

}  // namespace

TEST_CASE("weight_block: a shared snapshot has the bytes of a copy, and its memory where all tensors are published") {
  for (const TensorGroup second : {TensorGroup::value, TensorGroup::critic}) {
    const WeightBlock block = block_of(second);
    const WeightsPtr copy = block.snapshot({1, 2}), shared = block.share({1, 2});
    CHECK(shared->flat == copy->flat);
    CHECK(shared->version == copy->version);
    CHECK(shared->signature == copy->signature);
    CHECK(shared->identity != copy->identity);
    const bool same = shared->flat.data() == reinterpret_cast<const std::byte*>(block.floats("a").data());
    CHECK(same == (second == TensorGroup::value));
  }
}

TEST_CASE("weight_block: detached and exchanged memory leaves a shared snapshot as it is") {
  for (const bool exchanged : {false, true}) {
    WeightBlock block = block_of();
    const WeightsPtr copy = block.snapshot({}), shared = block.share({});
    Array other = gradients_of(block, 1);
    exchanged ? block.exchange(other) : block.detach();
    CHECK_FALSE((exchanged && block.share({})->flat == copy->flat));
    for (float& x : block.floats("a")) x = 7;
    CHECK(shared->flat == copy->flat);
  }
}

TEST_CASE("weight_block: an adopted snapshot is that of the other block, and must fit") {
  WeightBlock block = block_of(), other = block_of(TensorGroup::value, 2);
  other.adopt(*block.share({}));
  CHECK((other.save() == block.save()));
  const WeightBlock wrong(Signature{{{TensorGroup::policy, "c", {3}, DType::f32}}});
  CHECK_THROWS_AS(other.adopt(*wrong.share({})), ConfigError);
  CHECK((other.save() == block.save()));
}

TEST_CASE("weight_block: views are what save() copies") {
  const WeightBlock block = block_of();
  CHECK((block.views() == block.save()));
}

TEST_CASE("optimizer: a step that exchanges memory has the bits of one that writes, and leaves old weights alone") {
  TrainerConfig config;
  config.weight_decay = 0.1;
  WeightBlock written = block_of(TensorGroup::critic), exchanged = block_of(TensorGroup::critic);
  Optimizer writing(config, written, ClipNorm::by_group), exchanging(config, exchanged, ClipNorm::by_group);
  for (uint64_t step = 0; step < 6; ++step) {
    const bool train_policy = step % 3 != 1;
    Array gradients = gradients_of(written, step);
    const Array before = exchanged.views().at("a"), copy = before.clone();
    const double norm = writing.step(floats_of(gradients), {1e-2, 3e-2}, train_policy);
    const GradientSquares squares = exchanging.squares(floats_of(gradients), 0);
    CHECK(exchanging.step_exchanging(gradients, {1e-2, 3e-2}, train_policy, squares) == norm);
    CHECK((exchanged.save() == written.save()));
    CHECK(before == copy);
  }
  std::map<std::string, Array> of_writing, of_exchanging;
  save_moments(written, writing.moments(), of_writing);
  save_moments(exchanged, exchanging.moments(), of_exchanging);
  CHECK((of_writing == of_exchanging));
}

TEST_CASE("optimizer: gradients that are not finite change nothing") {
  WeightBlock block = block_of();
  Optimizer optimizer(TrainerConfig(), block);
  Array gradients = gradients_of(block, 1);
  reinterpret_cast<float*>(gradients.mutable_data())[0] = std::numeric_limits<float>::quiet_NaN();
  const auto before = block.save();
  const GradientSquares squares = optimizer.squares(floats_of(gradients), 0);
  CHECK_FALSE(std::isfinite(optimizer.step_exchanging(gradients, {1, 1}, true, squares)));
  CHECK((block.save() == before));
}

TEST_CASE("optimizer: saved moments stay as they are when training goes on") {
  WeightBlock block = block_of();
  Optimizer optimizer(TrainerConfig(), block);
  const auto step = [&](uint64_t seed) { optimizer.step(floats_of(gradients_of(block, seed)), {1, 1}, true); };
  step(1);
  std::map<std::string, Array> saved, copies, later;
  save_moments(block, optimizer.moments(), saved);
  for (const auto& [name, array] : saved) copies[name] = array.clone();
  step(2);
  CHECK((saved == copies));
  save_moments(block, optimizer.moments(), later);
  CHECK_FALSE((later == copies));
}
