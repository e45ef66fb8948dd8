#pragma once
// A policy without a model: always takes the first action, and expects nothing.

#include <memory>
#include <utility>

#include "envs/env.h"
#include "models/policy.h"

namespace troupe::test {

class FirstAction : public Policy {
 public:
  explicit FirstAction(EnvSpec spec) : spec_(std::move(spec)) {}

  std::shared_ptr<const Signature> signature() const override { return std::make_shared<const Signature>(); }
  void load(const WeightSnapshot&) override {}
  ActOutput act(const ActInput& input) override {
    const int64_t rows = input.seeds.dim(0);
    return {Array(spec_.action.dtype(), spec_.action.shape().prepended(rows)),
            Array(DType::f32, {rows, spec_.action.decisions()}), Array(DType::f32, {rows})};
  }
  using Policy::values;
  Array values(const Arrays& observations, const Array&) override {
    return Array(DType::f32, {observations[0].second.dim(0)});
  }

 private:
  EnvSpec spec_;
};

}  // namespace troupe::test
