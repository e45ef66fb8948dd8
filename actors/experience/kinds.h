#pragma once
// The kinds of experience: what replay and the ports need to know of each. A kind is a struct in models/experience,
// which RolloutBody names, a folder beside this file, and an entry of the table in kinds.cpp.

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/experience/common/array_checks.h"
#include "actors/experience/common/evaluation_player.h"
#include "actors/experience/common/grader.h"
#include "actors/experience/common/run_spec.h"
#include "actors/experience/common/sampler.h"
#include "actors/experience/common/server.h"
#include "models/experience/rollout_units.h"
#include "models/experience/sample_tokens.h"
#include "runtime/base/version.h"
#include "runtime/stats/experience_words.h"

namespace troupe {

// The functions of a kind. Those that take a rollout take one of this kind.
struct ExperienceKind {
  const char* name;  // of what a rollout holds, in messages
  const ExperienceWords* words;
  // What those episodes of an evaluation mean that failed, of those that have ended.
  std::string (*failed_text)(uint64_t failed, uint64_t ended, const std::string& last_error);
  Misfit (*misfit)(const RunSpec& run, const Rollout& rollout);
  // Bytes on the wire that no rollout, and no request and reply of a worker, exceeds.
  size_t (*most_bytes_of_rollout)(const RunSpec& run);
  size_t (*most_bytes_of_request)(const RunSpec& run);
  size_t (*most_bytes_of_reply)(const RunSpec& run);
  // What a worker with this number does. Throws what the making of an environment throws.
  std::unique_ptr<Sampler> (*make_sampler)(const RunSpec& run, const RunFactories& factories, uint64_t worker,
                                           SamplerPort& port);
  // What scores the experience of a worker, asked in turn; empty if it needs no scores.
  std::vector<std::shared_ptr<Grader>> (*make_graders)(const RunSpec& run);
  // What scores that of an evaluation, where scorers of the run have no part.
  std::vector<std::shared_ptr<Grader>> (*make_evaluation_graders)(const RunSpec& run);
  // What an inference actor does. `run` and `factories` must live as long as the server.
  std::unique_ptr<Server> (*make_server)(const RunSpec& run, const RunFactories& factories);
  // The same in the role scoring; null: there is no such actor.
  std::unique_ptr<Server> (*make_scoring_server)(const RunSpec& run, const RunFactories& factories);
  // What plays evaluations. `grader` scores what it plays; null: the player makes its own, if it needs one.
  std::unique_ptr<EvaluationPlayer> (*make_evaluation)(std::shared_ptr<const RunSpec> run,
                                                       std::shared_ptr<const RunFactories> factories,
                                                       std::shared_ptr<Grader> grader);
  // `count` demonstrations, drawn by `key`, that the learner imitates in a warm-up; null: there are none.
  std::unique_ptr<StagedBatch> (*demonstrations)(const RunSpec& run, uint64_t key, int64_t count);
  // What replay counts of one unit of the rollout, or, if it is null, of all; 0 where samples have no tokens.
  SampleTokens (*count)(const Rollout& rollout, const RolloutUnit* unit);
  // The same of a unit, of which versions with a number below `least` are masked.
  TokenSplit (*split)(const Rollout& rollout, const RolloutUnit& unit, uint64_t least);
  // Whether nothing can be learned from it because all its rewards are equal, see replay.filter_groups.
  bool (*without_spread)(const Rollout& rollout);
};

const ExperienceKind& kind_of(const RunConfig& config);
inline const ExperienceKind& kind_of(const RunSpec& run) { return kind_of(run.config); }
const ExperienceKind& kind_of(const Rollout& rollout);

// Whether a rollout that a peer sent fits the run. `newest` is the newest version that samples can come from.
Misfit misfit(const RunSpec& run, PolicyVersion newest, const Rollout& rollout);

}  // namespace troupe
