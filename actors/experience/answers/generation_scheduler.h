#pragma once
// GenerationScheduler: continuous batching for a Generator. It puts requests into slots in the order of their arrival,
// and each step computes one token of every answer in progress and a part of the prompts and histories that wait. An
// answer that ends frees its slot at once. One thread; owned by an inference actor or an evaluator.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/experience/answers.h"
#include "models/generator.h"

namespace troupe {

// What happens with the keys and values of requests in progress when a step has another version than the one before.
enum class OnNewWeights : uint8_t {
  keep,       // nothing
  recompute,  // they are computed anew before the next token, in parts of at most `prefill_tokens`
  finish,     // it must not happen: the caller changes weights only while no request has begun
};

struct GenerationOptions {
  // Most tokens of prompts, histories and those computed anew in one step; at least 1.
  int64_t prefill_tokens = 256;
  std::vector<int32_t> end_tokens;  // an answer ends with the first of these
  std::string stop = {};            // or when it has this text, if there is one
  // The text of tokens; only for `stop`.
  std::function<std::string(std::span<const int32_t>)> text_of = {};
  OnNewWeights on_new_weights = OnNewWeights::keep;
  // Keys and values of requests that are done stay in their slots until these are needed, for the next turn.
  bool turns = false;
};

// Some answers to one prompt.
struct GenerationRequest {
  uint64_t ticket = 0;          // chosen by the caller
  std::vector<int32_t> prompt;  // at least one token
  int64_t max_tokens = 1;       // of an answer, the end token included
  std::vector<uint64_t> keys;   // one per answer: the key of its random stream
  size_t greedy = 0;            // so many answers, the last ones, are the most likely ones instead
  // Of a later turn, for each answer: what follows the prompt so far, at least one token. Else empty.
  std::vector<std::vector<int32_t>> history = {};
  uint64_t before = 0;  // then: the ticket of the turn before

  bool is_greedy(size_t answer) const { return answer + greedy >= keys.size(); }
};

struct GeneratedAnswer {
  std::vector<int32_t> tokens;    // at least one
  std::vector<float> log_probs;   // one per token
  std::vector<uint64_t> version;  // one per token: the weights that computed it
  Finish finish = Finish::stop;
};

struct Generation {
  uint64_t ticket = 0;
  std::vector<GeneratedAnswer> answers;  // in the order of the keys
};

class GenerationScheduler {
 public:
  // The slots are those of the generator that step() gets.
  GenerationScheduler(const Generator& generator, GenerationOptions options);

  // The request must fit into the slots.
  void add(GenerationRequest request);
  // Drops the request with this ticket, or what is kept of it.
  void forget(uint64_t ticket);
  // Drops what is kept of all requests that are done.
  void forget_done();
  bool idle() const { return waiting_.empty() && active_.empty(); }
  // Of the requests that have slots, the oldest one first.
  std::vector<uint64_t> tickets() const;
  // Requests that are not done, and answers that have a slot.
  size_t requests() const { return waiting_.size() + active_.size(); }
  int64_t slots_in_use() const { return slots_in_use_; }
  // Tokens of histories that needed no computation, since the last call.
  int64_t take_reused() { return std::exchange(reused_, 0); }
  // Tokens that the last step computed, and those of them whose keys and values older weights had computed before.
  int64_t last_rows() const { return last_rows_; }
  int64_t last_recomputed() const { return last_recomputed_; }

  // While it holds, no request begins; those that have begun go on.
  void hold(bool held) { held_ = held; }
  // Whether there are requests that have begun, and whether some of them are being computed anew.
  bool any_begun() const;
  bool recomputing() const;

  // Computes one step with the weights of this version number, and returns the requests that are done with it. When the
  // generator throws, no answer has changed. With `only`, the step is one of the requests with these tickets.
  std::vector<Generation> step(Generator& generator, uint64_t version, std::span<const uint64_t> only = {});

 private:
  struct Answer {
    GeneratedAnswer result;
    std::vector<int32_t> tokens;  // after the prompt: the history and those of the result
    int32_t slot = -1;
    int64_t computed = 0;  // tokens whose keys and values the slot holds
    bool done = false;
    // Tokens that must be computed before the last one, from which the next is drawn.
    int64_t behind() const { return static_cast<int64_t>(tokens.size()) - 1 - computed; }
  };
  struct Active {
    GenerationRequest request;
    int32_t slot = 0;          // of the prompt
    int64_t computed = 0;      // tokens of the prompt
    uint64_t version = 0;      // of the last step of this request
    bool drawn = false;        // all answers have their first token
    bool recomputing = false;  // until all that it had is computed anew
    std::vector<Answer> answers;
    bool begun() const { return computed > 0 || drawn; }
    // Whether answers need slots: their first tokens are drawn, or those of their histories are to be computed.
    bool takes_slots() const { return drawn || (!request.history.empty() && has_prompt()); }
    bool has_prompt() const { return computed == static_cast<int64_t>(request.prompt.size()); }
  };
  // What a part of a step is for.
  struct Use {
    Active* active = nullptr;
    int64_t answer = -1;  // or -1: the prompt
    int64_t tokens = 0;
    int64_t again = 0;  // of them, those that are computed anew
  };

  void admit();
  // Takes the turn before this request out of what is kept, if it is there.
  std::unique_ptr<Active> take_kept(const GenerationRequest& request);
  // Gives the answers the slots of their turn before.
  void take_over(Active& active, Active& kept);
  void give_slots();
  // A slot that holds nothing in progress, if there is one.
  std::optional<int32_t> take_prompt_slot();
  std::optional<int32_t> take_answer_slot();
  void end(Answer& answer);
  void plan(uint64_t version, std::span<const uint64_t> only);
  void renew(Active& active, uint64_t version);
  void plan_prompt(Active& active);
  void plan_answer(Active& active, size_t index);
  void note_computed(const Use& use);
  void append(Answer& answer, const GenerationRequest& request, const DrawnToken& drawn, uint64_t version);
  std::vector<Generation> take_done();
  void release(Active& active);

  GenerationOptions options_;
  std::deque<GenerationRequest> waiting_;
  std::deque<std::unique_ptr<Active>> active_;  // oldest first
  std::deque<std::unique_ptr<Active>> done_;    // what is kept of them, oldest first
  std::vector<int32_t> free_prompts_, free_answers_;
  int64_t slots_in_use_ = 0, last_rows_ = 0, last_recomputed_ = 0, reused_ = 0;
  bool held_ = false;
  // Of the current step.
  int64_t prefill_ = 0;  // tokens of prompts, histories and those computed anew that it may still have
  std::vector<GeneratorPart> parts_;
  std::vector<Use> uses_;
  std::deque<std::vector<TokenDraw>> draws_;
};

}  // namespace troupe
