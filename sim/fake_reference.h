#pragma once
// The reference of a simulated token run. The log-probability that it gives a token is a known function of the prompt
// and of the answer up to that token, with a number of its own, so that one in the wrong place is detected. One thread.

#include <cstdint>
#include <memory>
#include <string>

#include "actors/messages.h"
#include "models/reference_model.h"

namespace troupe::sim {

class World;

std::unique_ptr<ReferenceModel> fake_reference(World& world);

// A scorer takes a request: it holds all answers to a prompt, as a generator has drawn them for this worker.
void check_scoring_request(World& world, uint64_t worker, const ScoringRequest& request);
// Each token of a group of answers has the log-probability that is its own, if the run has scorers.
void check_reference(World& world, const Answers& answers, const std::string& who);

}  // namespace troupe::sim
