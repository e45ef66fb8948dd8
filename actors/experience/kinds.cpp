#include "actors/experience/kinds.h"

#include <string>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/answer_counts.h"
#include "actors/experience/answers/answer_evaluation.h"
#include "actors/experience/answers/answer_graders.h"
#include "actors/experience/answers/answer_sampler.h"
#include "actors/experience/answers/answer_words.h"
#include "actors/experience/answers/demonstrations.h"
#include "actors/experience/answers/generation_server.h"
#include "actors/experience/answers/scoring_server.h"
#include "actors/experience/grid/environment_evaluation.h"
#include "actors/experience/grid/grid_checks.h"
#include "actors/experience/grid/policy_server.h"
#include "actors/experience/grid/step_sampler.h"
#include "actors/experience/grid/step_words.h"

namespace troupe {

namespace {

std::unique_ptr<Sampler> make_step_sampler(const RunSpec& run, const RunFactories& factories, uint64_t worker,
                                           SamplerPort& port) {
  const auto make = [&] { return factories.make_env(run.config.env); };
  return std::make_unique<StepSampler>(run.config, run.recurrence, worker, make, port);
}

std::unique_ptr<Sampler> make_answer_sampler(const RunSpec& run, const RunFactories& /*factories*/, uint64_t worker,
                                             SamplerPort& port) {
  return std::make_unique<AnswerSampler>(run.config, run.tokens, worker, port);
}

std::vector<std::shared_ptr<Grader>> make_no_graders(const RunSpec& /*run*/) { return {}; }

template <class Kind>
std::unique_ptr<Server> make_server(const RunSpec& run, const RunFactories& factories) {
  return std::make_unique<Kind>(run, factories);
}

SampleTokens count_nothing(const Rollout& /*rollout*/, const RolloutUnit* /*unit*/) { return {}; }

TokenSplit split_nothing(const Rollout& /*rollout*/, const RolloutUnit& /*unit*/, uint64_t /*least*/) { return {}; }

bool never(const Rollout& /*rollout*/) { return false; }

// In the order of Experience.
constexpr ExperienceKind kKinds[] = {
    {.name = "steps of environments",
     .words = &kStepWords,
     .failed_text = failed_episodes_text,
     .misfit = grid_misfit,
     .most_bytes_of_rollout = most_bytes_of_grid,
     .most_bytes_of_request = most_bytes_of_step_request,
     .most_bytes_of_reply = most_bytes_of_step_reply,
     .make_sampler = make_step_sampler,
     .make_graders = make_no_graders,
     .make_evaluation_graders = make_no_graders,
     .make_server = make_server<PolicyServer>,
     .make_scoring_server = nullptr,
     .make_evaluation = make_environment_evaluation,
     .demonstrations = nullptr,
     .count = count_nothing,
     .split = split_nothing,
     .without_spread = never},
    {.name = "answers",
     .words = &kAnswerWords,
     .failed_text = unscored_answers_text,
     .misfit = answers_misfit,
     .most_bytes_of_rollout = most_bytes_of_answers,
     .most_bytes_of_request = most_bytes_of_answer_request,
     .most_bytes_of_reply = most_bytes_of_answer_reply,
     .make_sampler = make_answer_sampler,
     .make_graders = make_worker_graders,
     .make_evaluation_graders = make_answer_graders,
     .make_server = make_server<GenerationServer>,
     .make_scoring_server = make_server<ScoringServer>,
     .make_evaluation = make_answer_evaluation,
     .demonstrations = draw_demonstrations,
     .count = count_answers,
     .split = split_answers,
     .without_spread = without_spread},
};

}  // namespace

const ExperienceKind& kind_of(const RunConfig& config) { return entry_of(kKinds, experience_of(config)); }

const ExperienceKind& kind_of(const Rollout& rollout) { return entry_of(kKinds, rollout.kind()); }

Misfit misfit(const RunSpec& run, PolicyVersion newest, const Rollout& rollout) {
  const ExperienceKind &wanted = kind_of(run), &given = kind_of(rollout);
  if (&given != &wanted) return std::string("it holds ") + given.name + ", expected " + wanted.name;
  if (rollout.group >= static_cast<uint32_t>(run.config.workers.groups))
    return "group " + std::to_string(rollout.group) + " of " + std::to_string(run.config.workers.groups);
  if (auto error = wanted.misfit(run, rollout)) return error;
  if (auto error = check_episodes(rollout.episodes, rollout.samples)) return error;
  if (rollout.samples > 0 && newest < PolicyVersion{rollout.epoch, rollout.newest})
    return "it comes from a version that does not exist yet";
  return std::nullopt;
}

}  // namespace troupe
