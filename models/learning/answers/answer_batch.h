#pragma once
// AnswerBatch: the answers of a super-batch in one piece, and how some of them are packed for one forward pass. Plain
// values; any thread.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/losses/aggregation.h"
#include "models/decoder/batch.h"
#include "models/experience/rollout.h"
#include "models/policy.h"

namespace troupe {

// S answers with T tokens together, to G prompts; the answers to a prompt follow each other.
struct AnswerBatch final : StagedBatch {
  std::vector<int32_t> prompts;          // ids, prompt after prompt
  std::vector<int64_t> prompt_offsets;   // [G + 1]
  std::vector<int64_t> group_offsets;    // [G + 1]: the answers to prompt g
  std::vector<int32_t> tokens;           // [T]
  std::vector<int64_t> offsets;          // [S + 1]
  std::vector<float> log_probs;          // [T] of the policy that sampled the tokens
  std::vector<int64_t> versions;         // [T] of that policy, its number; empty = the one of the update
  std::vector<uint8_t> kept;             // [T] 0 = without loss; empty = all have one
  std::vector<float> rewards;            // [S]
  std::vector<float> baselines;          // [G] scores of the most likely answers, or empty
  std::vector<float> reference;          // [T] log-probabilities by the reference, or empty = the trainer computes them
  std::vector<int32_t> messages;         // ids of the task between the tokens: inputs that have no loss
  std::vector<int64_t> message_offsets;  // [T + 1]: those directly before token t; empty = none at all
  std::vector<float> turn_rewards;       // [T] of the rewards, what comes with the ends of turns; empty = none at all
  std::vector<uint8_t> cut;              // [S] 1 = ended by the largest number of tokens; empty = none
  std::vector<int64_t> drawn_from;       // [T] places of the tokens in the batch that these answers are of; empty = all

  // Updates from the policy that sampled token t to the one of the update.
  int64_t lag(size_t t) const {
    return versions.empty() ? 0 : std::max<int64_t>(0, static_cast<int64_t>(index) - versions[t]);
  }
  int64_t groups() const { return static_cast<int64_t>(group_offsets.size()) - 1; }
  int64_t answers() const { return static_cast<int64_t>(rewards.size()); }
  int64_t prompt_tokens(int64_t g) const { return prompt_offsets[size_at(g + 1)] - prompt_offsets[size_at(g)]; }
  int64_t answers_of(int64_t g) const { return group_offsets[size_at(g + 1)] - group_offsets[size_at(g)]; }
  // The tokens of the answers to prompt g: where they begin, and how many.
  int64_t first_token(int64_t g) const { return offsets[size_at(group_offsets[size_at(g)])]; }
  int64_t answer_tokens(int64_t g) const { return first_token(g + 1) - first_token(g); }
  // Adds the messages of the next answers: one length for each of their tokens, or none.
  void add_messages(std::span<const int32_t> ids, std::span<const int32_t> lengths);

  // Of answer a, without messages, and the prompt that it is to.
  int64_t tokens_of(int64_t a) const { return offsets[size_at(a + 1)] - offsets[size_at(a)]; }
  // Its tokens and those of messages, which a pass reads after the prompt.
  int64_t read_tokens_of(int64_t a) const;
  // Tokens of its longest turn: of all turns between its messages.
  int64_t longest_turn_of(int64_t a) const;
  int64_t group_of(int64_t a) const { return std::ranges::upper_bound(group_offsets, a) - group_offsets.begin() - 1; }

  bool is_kept(size_t token) const { return kept.empty() || kept[token] != 0; }

  static size_t size_at(int64_t i) { return static_cast<size_t>(i); }
};

// The units of a super-batch must be groups, with a token each that is not masked.
std::unique_ptr<AnswerBatch> gather_answers(const SuperBatch& batch);

// The answers of several batches, at least one, in their order.
AnswerBatch joined_answers(std::span<const AnswerBatch* const> batches);

// The tokens of answers that were cut at the largest length have no loss.
void mask_cut_answers(AnswerBatch& batch);

// What the tokens of group g that are kept add to the normalizers of a loss. kept: [T], or empty = all.
TokenCounts counts_of(const AnswerBatch& batch, std::span<const uint8_t> kept, int64_t g);

// Some answers, packed for one forward pass: the prompt of answers that follow each other once, before them. The last
// token of an answer is predicted; it is an input only where the state after it is asked for.
struct PackedAnswers {
  std::vector<int32_t> ids;           // inputs
  std::vector<LmSequence> sequences;  // of the inputs
  std::vector<int64_t> rows, labels;  // [N] which input row predicts each token of the answers, and the token; no row
                                      // predicts a token of a message
  std::vector<int64_t> places;        // [N] of the token in the batch
  std::vector<int64_t> offsets;       // [A + 1] the tokens of each answer among the N
  std::vector<int64_t> answers;       // [A] of the answers in the batch
  std::vector<int64_t> last_rows;     // [A] the input rows of their last tokens, or empty = these are no inputs

  LmBatch inputs() const { return {ids, sequences}; }
};

// `answers` ascending.
PackedAnswers pack_answers(const AnswerBatch& batch, std::span<const int64_t> answers, bool last_tokens = false);

}  // namespace troupe
