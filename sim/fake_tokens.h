#pragma once
// The task, the tokenizer and the generator of a simulated token run. Every token that a FakeGenerator draws has a
// unique number, which is its log-probability with the sign changed. So a token, a version or an answer in the wrong
// place is detected. One thread.

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/experience/answers/token_run.h"
#include "actors/messages.h"
#include "models/generator.h"
#include "models/policy.h"
#include "runtime/base/version.h"

namespace troupe::sim {

class World;

// One token that was drawn for an answer.
struct DrawnRecord {
  uint64_t key = 0;
  int64_t index = 0;
  PolicyVersion version;  // of the weights that drew it
  int32_t token = 0;
  uint64_t generator = 0;
  bool arrived = false;  // in a rollout that replay received
  // Of the first token of an answer:
  bool trained = false;  // in an update that succeeded
  uint32_t uses = 0;     // number of updates that used it
  float reward = 0;      // that its answer arrived with
  float baseline = 0;    // the same
  PolicyVersion newest;  // of the tokens of its answer, in all turns
};

// A request for a group of answers.
struct AskedGroup {
  uint64_t worker = 0;
  uint64_t process = 0;  // the trainer's process in which it was asked for
  std::vector<int32_t> prompt;
  std::vector<uint64_t> keys;
};

// The turns of an answer, as generators have drawn them. Ambiguous if it was asked twice and different tokens were
// drawn.
struct GeneratedTurns {
  std::vector<Turn> turns;
  std::vector<int32_t> sampled;
  bool complete = false, ambiguous = false;
};

// An answer, in one turn, as a generator has drawn it. Ambiguous if it was asked twice and different tokens were drawn.
struct GeneratedAnswer {
  std::vector<int32_t> tokens;
  bool complete = false, ambiguous = false;
};

struct TokenWorld {
  std::vector<DrawnRecord> drawn{1};
  std::unordered_map<uint64_t, std::vector<size_t>> by_key;     // numbers of the tokens drawn for each answer
  std::map<uint64_t, std::shared_ptr<const AskedGroup>> asked;  // by the key of each answer, in each turn
  std::map<uint64_t, uint64_t> first_key;                       // of an answer, by the key of a later turn
  std::map<uint64_t, std::vector<int32_t>> histories;           // by that key: what follows the prompt before the turn
  uint64_t generators = 0;
  uint64_t turns = 0;            // that were asked for after the first ones
  uint64_t shared_scorings = 0;  // forward passes of scorers with several groups of answers
  uint64_t computed_anew = 0;    // tokens of answers whose keys and values older weights had made before

  // The token with this log-probability, or nullptr.
  DrawnRecord* find(float log_prob);
  bool was_drawn(uint64_t generator, uint64_t key, int64_t index, int32_t token) const;
  // Those that have drawn a token of this answer.
  std::set<uint64_t> generators_of(uint64_t key) const;
  GeneratedAnswer answer(uint64_t generator, uint64_t key, int64_t most_tokens) const;
  // The same of all generators.
  GeneratedAnswer answer(uint64_t key, int64_t most_tokens) const;
};

// The first tokens of the answers in the selected groups, one per answer.
std::vector<DrawnRecord*> answers_of(World& world, const RolloutUnits& part);

// The least number of a version whose tokens the update with this index may train on, where others are masked; else 0.
uint64_t least_version(const World& world, uint64_t index);

// The text of a prompt or an answer, and back.
std::string text_of(std::span<const int32_t> ids);
std::vector<int32_t> ids_of(std::string_view text);

// What the task says after these turns.
std::optional<std::string> message_after(std::string_view prompt, std::span<const Turn> turns);
// All turns of an answer in a group, of which this generator has drawn the first.
GeneratedTurns turns_of(const World& world, const AskedGroup& asked, uint64_t key, uint64_t generator);

std::shared_ptr<const TokenRun> fake_token_run(World& world);
std::unique_ptr<Generator> fake_generator(World& world);

// An inference actor takes a request.
void note_request(World& world, const InferenceRequest& request, uint64_t process);
// Its part for later turns: they continue answers that took place.
void note_turn(World& world, const InferenceRequest& request);
// A rollout arrives at replay: checks every answer against the tokens that were drawn.
void check_answers(World& world, const Rollout& rollout, const std::map<uint64_t, bool>& published);
// Its part for scores: the answers have the rewards, the parts and the baseline that are theirs.
void check_scores(World& world, const Rollout& rollout, const std::string& who);
// An answer without a score is missing, and counted; no other one is. `generator` has generated the answers to `asked`.
void check_missing(World& world, const Rollout& rollout, const AskedGroup& asked, uint64_t generator,
                   const std::string& who);
// The same of a rollout without answers.
void check_all_missing(World& world, const Rollout& rollout, const std::string& who);
// An update is about to use this batch.
void check_answer_use(World& world, const SuperBatch& batch);

}  // namespace troupe::sim
