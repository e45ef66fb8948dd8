#pragma once
// GenerationScheduler: continuous batching for a Generator. It puts requests into slots in the order of their arrival,
// and each step computes one token of every answer in progress and a part of the prompts that wait. An answer that ends
// frees its slot at once. One thread; owned by an inference actor or an evaluator.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/experience/answers.h"
#include "models/generator.h"

namespace troupe {

struct GenerationOptions {
  int64_t prefill_tokens = 256;     // most tokens of prompts in one step; at least 1
  std::vector<int32_t> end_tokens;  // an answer ends with the first of these
  std::string stop = {};            // or when it has this text, if there is one
  // The text of tokens; only for `stop`.
  std::function<std::string(std::span<const int32_t>)> text_of = {};
};

// Some answers to one prompt.
struct GenerationRequest {
  uint64_t ticket = 0;          // chosen by the caller
  std::vector<int32_t> prompt;  // at least one token
  int64_t max_tokens = 1;       // of an answer, the end token included
  std::vector<uint64_t> keys;   // one per answer: the key of its random stream
  size_t greedy = 0;            // so many answers, the last ones, are the most likely ones instead

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
  // Drops the request with this ticket, if it is not done.
  void forget(uint64_t ticket);
  bool idle() const { return waiting_.empty() && active_.empty(); }
  // Of the requests that have slots, the oldest one first.
  std::vector<uint64_t> tickets() const;
  // Requests that are not done, and answers that have a slot.
  size_t requests() const { return waiting_.size() + active_.size(); }
  int64_t slots_in_use() const { return slots_in_use_; }
  // Tokens that the last step computed.
  int64_t last_rows() const { return last_rows_; }

  // Computes one step with the weights of this version number, and returns the requests that are done with it. When the
  // generator throws, no answer has changed. With `only`, the step is one of the requests with these tickets.
  std::vector<Generation> step(Generator& generator, uint64_t version, std::span<const uint64_t> only = {});

 private:
  struct Answer {
    GeneratedAnswer result;
    int32_t slot = -1;
    bool done = false;
  };
  struct Active {
    GenerationRequest request;
    int32_t slot = 0;      // of the prompt
    int64_t computed = 0;  // tokens of the prompt
    std::vector<Answer> answers;
    bool started() const { return computed == static_cast<int64_t>(request.prompt.size()); }
  };
  // What a part of a step is for.
  struct Use {
    Active* active = nullptr;
    int64_t answer = -1;  // or -1: the prompt
    int64_t tokens = 0;
  };

  void admit();
  void give_slots();
  void plan(std::span<const uint64_t> only);
  void append(Answer& answer, const GenerationRequest& request, const DrawnToken& drawn, uint64_t version);
  void release(Active& active);
  bool ends(int32_t token) const;
  bool has_stop(std::span<const int32_t> answer) const;

  GenerationOptions options_;
  std::deque<GenerationRequest> waiting_;
  std::deque<std::unique_ptr<Active>> active_;  // oldest first
  std::vector<int32_t> free_prompts_, free_answers_;
  int64_t slots_in_use_ = 0, last_rows_ = 0;
  // Of the current step.
  std::vector<GeneratorPart> parts_;
  std::vector<Use> uses_;
  std::deque<std::vector<TokenDraw>> draws_;
};

}  // namespace troupe
