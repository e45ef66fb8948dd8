#include "actors/experience/answers/prompt_sampler.h"

#include <stdexcept>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

namespace {

// How often each prompt comes in many draws, as a share of all.
std::vector<double> shares(const PromptSampler& sampler, uint64_t prompts) {
  constexpr int kDraws = 20'000;
  Rng rng(derive_key(1, "draws"));
  std::vector<double> result(prompts);
  for (int i = 0; i < kDraws; ++i) result.at(sampler.draw(rng)) += 1.0 / kDraws;
  return result;
}

}  // namespace

TEST_CASE("prompt_sampler: prompts that were not asked yet are drawn alike") {
  for (const uint64_t prompts : {1, 2, 3, 7, 8, 20})
    for (const double share : shares(PromptSampler(prompts), prompts))
      CHECK(share == doctest::Approx(1.0 / static_cast<double>(prompts)).epsilon(0.15));
}

TEST_CASE("prompt_sampler: the weight is the rate of failure above a least one, and later answers count more") {
  PromptSampler sampler(4);
  sampler.record(0, 4, 4);  // always right
  sampler.record(1, 4, 2);
  sampler.record(2, 4, 0);
  sampler.record(3, 4, 0);
  sampler.record(3, 4, 4);  // half of its rate is from before
  const double least = 1.0 / 16, sum = 4 * least + 0 + 0.5 + 1 + 0.5;
  const std::vector<double> wanted = {least / sum, (least + 0.5) / sum, (least + 1) / sum, (least + 0.5) / sum};
  const std::vector<double> got = shares(sampler, 4);
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(0.1));
}

TEST_CASE("prompt_sampler: the figures are of the prompts that were asked") {
  PromptSampler sampler(5);
  sampler.record(0, 2, 2);
  sampler.record(1, 2, 0);
  sampler.record(2, 2, 2);
  sampler.record(2, 2, 0);  // not solved any more, but right before
  sampler.record(3, 2, 0);
  sampler.record(3, 2, 1);
  const PromptFigures figures = sampler.figures();
  CHECK(figures.asked == 4);
  CHECK(figures.solved == 1);
  CHECK(figures.never_right == 1);
  CHECK(figures.success == PromptSampler::kOne * (1 + 0 + 0.5 + 0.25));
}

TEST_CASE("prompt_sampler: a sampler that is restored goes on as the one that was saved") {
  PromptSampler saved(100), restored(100);
  Rng rng(derive_key(2, "outcomes"));
  for (int i = 0; i < 300; ++i) saved.record(rng.below(100), 8, rng.below(9));
  restored.load(saved.save(), "worker 1");
  Rng first(derive_key(3, "draws")), second = first;
  for (int i = 0; i < 300; ++i) {
    const uint64_t prompt = saved.draw(first);
    REQUIRE(restored.draw(second) == prompt);
    for (PromptSampler* each : {&saved, &restored}) each->record(prompt, 8, prompt % 9);
  }
  CHECK(restored.save() == saved.save());
  CHECK(restored.figures().success == saved.figures().success);
  PromptSampler other(99);
  CHECK_THROWS_AS(other.load(saved.save(), "worker 1"), std::runtime_error);
}
