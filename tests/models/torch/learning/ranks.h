#pragma once
// Two learners that train the same weights with different samples, and a third one with the samples of both.

#include <array>
#include <barrier>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/torch_test.h"

#include "models/weights/model_weights.h"
#include "tests/models/torch/learning/forms.h"

namespace troupe::test {

// Two ranks in one process. If the ranks make different calls, or calls of different sizes, both throw.
class TwoRanks {
 public:
  std::shared_ptr<GradientReducer> rank(size_t number) { return std::make_shared<Rank>(*this, number); }
  // `begin` comes before the calls of both ranks. A rank calls `leave` after its last call.
  void begin() { barrier_ = std::make_unique<std::barrier<>>(2); }
  void leave() { barrier_->arrive_and_drop(); }

  std::array<std::vector<std::string>, 2> calls;  // "sum 4", "reduce 26" of each rank
  std::array<std::vector<int64_t>, 2> samples;    // the samples of each reduce() of a rank

 private:
  struct Rank final : GradientReducer {
    Rank(TwoRanks& both, size_t number) : both_(both), number_(number) {}

    int ranks() const override { return 2; }
    void sum(std::span<double> numbers) override {
      at::Tensor view = at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::kDouble);
      both_.add(number_, "sum ", view);
    }
    void reduce(at::Tensor& gradients, int64_t samples) override {
      both_.samples[number_].push_back(samples);
      both_.add(number_, "reduce ", gradients);
    }

    TwoRanks& both_;
    size_t number_;
  };

  void add(size_t rank, const std::string& kind, at::Tensor& numbers) {
    calls[rank].push_back(kind + std::to_string(numbers.numel()));
    parts_[rank] = numbers.clone();
    made_[rank] = calls[rank].size();
    barrier_->arrive_and_wait();
    const bool same = made_[0] == made_[1] && calls[0].back() == calls[1].back();
    if (same) numbers.copy_(parts_[0] + parts_[1]);
    barrier_->arrive_and_wait();
    if (!same) throw std::runtime_error("rank " + std::to_string(rank) + " is alone with " + calls[rank].back());
  }

  std::unique_ptr<std::barrier<>> barrier_ = std::make_unique<std::barrier<>>(2);
  std::array<at::Tensor, 2> parts_;
  std::array<size_t, 2> made_{};
};

// Two ranks and one learner with the samples of both, all with the same weights.
struct Trainers {
  RunConfig config;
  EnvSpec spec;
  TwoRanks ranks;
  std::array<std::unique_ptr<Learner>, 2> learners;
  std::unique_ptr<Learner> one;
  std::array<UpdateReport, 2> reports;
  UpdateReport whole;

  Trainers(const RunConfig& run, const EnvSpec& env, bool device_form)
      : config(run), spec(env), one(learner_of(config, spec, device_form)) {
    for (size_t i = 0; i < 2; ++i) learners[i] = learner_of(config, spec, device_form, ranks.rank(i));
  }

  void update(const std::array<SuperBatch, 2>& batches) {
    std::array<std::exception_ptr, 2> errors;
    const auto run = [&](size_t i) {
      try {
        reports[i] = update_with(*learners[i], batches[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
      ranks.leave();
    };
    ranks.begin();
    std::thread other([&] { run(1); });
    run(0);
    other.join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
    SuperBatch joined = batches[0];
    joined.samples += batches[1].samples;
    joined.parts.insert(joined.parts.end(), batches[1].parts.begin(), batches[1].parts.end());
    whole = update_with(*one, joined);
    check_ranks();
  }

  // Checks that both ranks made the same calls and have the same state.
  void check_ranks() {
    CHECK(ranks.calls[0] == ranks.calls[1]);
    CHECK((learners[0]->save().model == learners[1]->save().model));
    CHECK((learners[0]->save().optimizer == learners[1]->save().optimizer));
    CHECK((learners[0]->save().scalars == learners[1]->save().scalars));
    CHECK(reports[0].steps == reports[1].steps);
    CHECK(reports[0].epochs == reports[1].epochs);
    CHECK(reports[0].skipped == reports[1].skipped);
  }

  // Checks that the ranks agree with the learner that has the samples of both.
  void check_joined() {
    const LearnerState ours = learners[0]->save(), wanted = one->save();
    CHECK(distance(ours.model, wanted.model) < 1e-5);
    CHECK(distance(ours.optimizer, wanted.optimizer) < 1e-5);
    for (const char* normalizer : {kObservationNormalizer, kReturnNormalizer})
      for (const char* part : {".count", ".mean", ".m2"})
        if (const std::string name = std::string(normalizer) + part; ours.model.contains(name))
          CHECK(distance({{name, ours.model.at(name)}}, {{name, wanted.model.at(name)}}) < 1e-6);
    REQUIRE(ours.scalars.size() == wanted.scalars.size());
    for (const auto& [name, value] : wanted.scalars)
      CHECK(ours.scalars.at(name) == doctest::Approx(value).epsilon(1e-6));
    CHECK(reports[0].steps == whole.steps);
    CHECK(reports[0].epochs == whole.epochs);
    for (const char* name : {"grad_norm", "kl", "advantage_mean", "advantage_std", "return_mean", "return_std"})
      for (const UpdateReport& report : reports)
        CHECK(report.metrics.at(name) == doctest::Approx(whole.metrics.at(name)).epsilon(1e-4));
  }
};

}  // namespace troupe::test
