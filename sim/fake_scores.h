#pragma once
// The scores of a simulated token run. They are known functions of a prompt and an answer, with numbers of their own,
// so that the score of another answer or another prompt is detected. One thread.

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/experience/common/grader.h"
#include "tasks/task.h"

namespace troupe::sim {

class World;
struct Scenario;

// What the verifiers have done.
struct ScoreWorld {
  uint64_t shared_calls = 0;  // that held several requests
  std::set<uint64_t> lost;    // groups on which a verifier died, by group_key()
};

uint64_t group_key(std::string_view prompt, std::span<const std::string> answers);

// Whether answers can lack a score in this run.
bool may_lack_scores(const Scenario& scenario);
// The score of an answer that has one.
Score score_of(std::string_view prompt, std::string_view answer);
// The same, or why the answer has none in this run.
Score training_score(const Scenario& scenario, std::string_view prompt, std::string_view answer);

// The verifiers of a worker: each takes some time, fails in a whole call, or dies on a group of answers.
std::vector<std::shared_ptr<Grader>> fake_verifiers(World& world);

}  // namespace troupe::sim
