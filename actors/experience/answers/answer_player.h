#pragma once
// AnswerPlayer: has answers to prompts generated, turn after turn, decoded and scored, for those who do not train on
// them: evaluations and `troupe play`. One thread.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/experience/answers/conversation.h"
#include "actors/experience/answers/token_run.h"
#include "actors/experience/common/grader.h"
#include "runtime/base/version.h"

namespace troupe {

struct PlayedAnswer {
  std::string text;                                          // of the last turn
  std::vector<int32_t> tokens = {};                          // sampled ones, in all turns
  std::vector<float> log_probs = {};                         // one per token
  std::vector<int32_t> messages = {}, message_lengths = {};  // as MessageTokens
  AnswerDetails details = {};                                // the turns before the last one, and all tokens
  Finish finish = Finish::stop;
  Score score;                    // Scored::none without a grader
  std::optional<double> kl = {};  // to the reference, set by those who have one
};

struct PlayedPrompt {
  Prompt prompt;
  std::vector<PlayedAnswer> answers;
};

// The line of answers.jsonl about an answer of the policy of this version, with its line break.
std::string answer_line(PolicyVersion version, const Prompt& prompt, const PlayedAnswer& answer);

class AnswerPlayer {
 public:
  // What it gets must live as long as it. `grader` may be null.
  AnswerPlayer(const RunConfig& config, const TokenRun& run, Generator& generator, Grader* grader);

  // Asks for one answer for each key, sampled or the most likely ones. `ids` are the tokens of the prompt.
  void ask(Prompt prompt, std::vector<int32_t> ids, std::vector<uint64_t> keys, bool greedy);
  // One step of all answers in progress. Returns the prompts whose answers have been scored with it. A function in
  // Python scores many prompts in a call. Throws what the generator and the grader throw.
  std::vector<PlayedPrompt> step();
  // Steps until all are done.
  std::vector<PlayedPrompt> finish();
  bool complete() const { return scheduler_.idle() && played_.empty(); }

 private:
  // The conversations with a prompt.
  struct Asked {
    Prompt prompt;
    std::vector<int32_t> ids;  // of the prompt
    std::vector<uint64_t> keys;
    bool greedy = false;
    std::vector<Conversation> conversations;
    std::vector<size_t> open;  // those of the turn that is generated
  };

  void ask_turn(uint64_t ticket);
  // Whether there is another turn, which is then asked for.
  bool continues(uint64_t ticket);
  void take(const Generation& done);
  void score();

  const TokenRun& run_;
  Generator& generator_;
  Grader* grader_;
  size_t together_;  // answers that are scored in a call
  GenerationScheduler scheduler_;
  std::vector<Asked> asked_;          // by ticket; empty when it is played
  std::vector<PlayedPrompt> played_;  // without scores
  size_t waiting_ = 0;                // answers of these
};

}  // namespace troupe
