#pragma once
// What the weights of a language model mean besides their tensors, as far as their source says it: the shape of the
// model, its adapters, and the ids of its tokenizer. `troupe train --init-from` compares it with the run. Plain
// functions; block on the disk; main thread.

#include <map>
#include <optional>
#include <string>

#include "actors/run_context.h"
#include "models/lm/lm_model.h"
#include "runtime/base/array.h"

namespace troupe {

struct WeightsMeaning {
  std::optional<LmShape> shape;  // of the model, under its adapters if it has any
  std::optional<double> alpha;   // of adapters; their rank and layers follow from the tensors
  SpecFields tokenizer;          // tokenizer_fields(); empty if they are not known
  std::string tokenizer_folder;  // holds the tokenizer.json; empty if there is none
};

// Of the weights of a run with this config. `run` is its folder, which may be empty: then the config alone says it.
WeightsMeaning meaning_in_run(const RunConfig& config, const std::string& run);

// Of the weights of a model or of adapters in a folder, which may have a tokenizer.json.
WeightsMeaning meaning_in_folder(const std::optional<LmShape>& shape, const std::string& folder);

// Throws ConfigError with both hashes if adapters among the tensors belong to other frozen weights than the model's.
void require_same_base(const std::map<std::string, Array>& tensors, const LmModel& model);

// Throws ConfigError with both values if the weights would compute something else in the run of `context`, which is a
// token run. Sizes that tensors show, and the largest number of positions, are not compared. Warns of a tokenizer that
// cannot be compared; `file` names the weights.
void require_same_meaning(const WeightsMeaning& weights, const RunContext& context, const std::string& file);

}  // namespace troupe
