#pragma once
// What a run is made of: what its environments are like, or its task, tokenizer and base model, as text. A run keeps it
// in its folder, and compares it with that of a process that joins. Pure functions.

#include <optional>
#include <string>
#include <vector>

#include "actors/messages/experience.h"

namespace troupe {

class Tokenizer;
struct RunContext;

// Names of some fields. Hashes are XXH3, 16 hexadecimal digits.
inline constexpr const char* kTaskData = "task.data";  // hash of the prompts
inline constexpr const char* kTokenizerKind = "tokenizer.kind";
inline constexpr const char* kTokenizerHash = "tokenizer.hash";
inline constexpr const char* kAlphabet = "tokenizer.alphabet";  // of a char tokenizer
inline constexpr const char* kModelBase = "model.base";         // hash of pre-trained weights
inline constexpr const char* kRewardModel = "reward_model";  // hash of its weights; only processes that score have it

// By name: what makes the ids of a text.
SpecFields tokenizer_fields(const Tokenizer& tokenizer);

// By name: what a run is made of. Of model.base only that of weights that are not trained.
SpecFields made_of(const RunContext& context);

// What a process that joins must share with the run, as far as it reads it: the same, and sizes.
SpecFields spec_fields(const RunContext& context);

// The fields in which a process that joins differs from the run, with both values; nothing when there are none. A
// process that does not read the base or the reward model has no field of it, which is no difference.
std::optional<std::string> spec_difference(const SpecFields& run, const SpecFields& worker);

// "NAME was VALUE and is now VALUE" for each field that differs. A process that does not read the base or
// the reward model has no field of it in `now`, which is no difference.
std::vector<std::string> made_of_changes(const SpecFields& before, const SpecFields& now);

}  // namespace troupe
