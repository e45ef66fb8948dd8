#pragma once
// The learner of a token run: a decoder on the CPU, trained with the answers that it sampled, by any surrogate and any
// estimator. Those that need values need a model with a critic.

#include <map>
#include <memory>
#include <string>

#include "models/learning/answers/answer_trainer.h"
#include "models/learning/learner_config.h"
#include "models/policy.h"

namespace troupe {

// Throws ConfigError naming the setting of the section "algorithm" that is wrong.
std::unique_ptr<Learner> make_answer_learner(const LearnerConfig& config, const LmModel& model,
                                             const AnswerTrainerOptions& options);

// The weights of the reference in what the learner has saved of its optimizer, under the names of the signature.
std::map<std::string, Array> saved_reference(const std::map<std::string, Array>& optimizer);

}  // namespace troupe
