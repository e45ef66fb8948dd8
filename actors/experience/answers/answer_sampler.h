#pragma once
// AnswerSampler: the Sampler of a token run: draws prompts, asks for answers, scores them and pushes them as rollouts.
// Several prompts are in progress at a time, one per group. One thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/experience/answers/token_run.h"
#include "actors/experience/common/sampler.h"

namespace troupe {

class AnswerSampler final : public Sampler {
 public:
  AnswerSampler(const RunConfig& config, std::shared_ptr<const TokenRun> tokens, uint64_t worker, SamplerPort& port);

  uint64_t samples_per_rollout() const override { return troupe::samples_per_rollout(config_); }
  void begin(uint32_t epoch) override;
  // The last error, when inference fails on the requests of all groups that wait for it.
  std::optional<std::string> failing() const override;

 protected:
  bool is_free(uint32_t group) const override { return !is_asking(group); }
  void start(uint32_t group) override;
  Misfit misfit(uint32_t group, const RequestBody& request, const InferenceReply& reply) const override;
  void take(uint32_t group, const RequestBody& request, const InferenceReply& reply) override;
  void on_wake(uint32_t group, uint32_t item) override;
  void add_to(WorkerReport& /*report*/) const override {}  // a rollout is made at once
  std::vector<std::string> save_parts() const override;
  void load_parts(const std::vector<std::string>& parts) override;

 private:
  RolloutPtr score(uint32_t group, const Array& prompt, uint32_t epoch, const AnswerReply& reply);

  RunConfig config_;
  std::shared_ptr<const TokenRun> tokens_;
  std::vector<Prompt> prompts_;  // by group
  uint32_t epoch_ = 0;
  uint64_t next_prompt_ = 0;
};

}  // namespace troupe
