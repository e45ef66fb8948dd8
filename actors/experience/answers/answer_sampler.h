#pragma once
// AnswerSampler: the Sampler of a token run: draws prompts, asks for answers, turn after turn, has them scored and
// pushes them as rollouts. Several prompts are in progress at a time, one per group, in different stages. One thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/experience/answers/conversation.h"
#include "actors/experience/answers/prompt_sampler.h"
#include "actors/experience/answers/score_order.h"
#include "actors/experience/answers/token_run.h"
#include "actors/experience/common/sampler.h"

namespace troupe {

class AnswerSampler final : public Sampler {
 public:
  // Inference gives no sign while it computes a step, which takes seconds with a large model.
  static constexpr uint32_t kPatience = 60;

  AnswerSampler(const RunConfig& config, std::shared_ptr<const TokenRun> tokens, uint64_t worker, SamplerPort& port);

  uint64_t samples_per_rollout() const override { return troupe::samples_per_rollout(config_); }
  void begin(uint32_t epoch) override;
  // Rollouts are pushed in the order in which their scores were asked for.
  void on_scores(const ScoreReply& reply) override;
  // The last error, when inference or scorers fail on the requests of all groups that have work.
  std::optional<std::string> failing() const override;
  // Groups whose scores by the task or its verifier have not come.
  size_t scores_outstanding() const;

 protected:
  bool is_free(uint32_t group) const override { return groups_[group].stage == Stage::idle; }
  void start(uint32_t group) override;
  Misfit misfit(uint32_t number, const RequestBody& request, const InferenceReply& reply) const override;
  void take(uint32_t number, const RequestBody& request, const InferenceReply& reply) override;
  // Asks again for the scores of a group.
  void on_wake(uint32_t group, uint32_t item) override;
  void add_to(WorkerReport& report) const override;  // answers without scores do not count
  std::vector<std::string> save_parts() const override;
  void load_parts(const std::vector<std::string>& parts) override;

 private:
  // Of the answers of a group. One that is idle has no credit; one that is replying waits for messages of the task.
  enum class Stage : uint8_t { idle, asking, replying, scoring };
  struct Group {
    Stage stage = Stage::idle;
    Prompt prompt;
    uint64_t listed = 0;  // its number in the list, if prompts_ has drawn it
    Array prompt_ids;
    std::vector<uint64_t> keys;  // of the answers
    uint32_t epoch = 0;          // of their tokens
    std::vector<Conversation> conversations;
    std::vector<size_t> open;  // those with a turn that is generated, or may be followed by another one; ascending
    uint64_t score_id = 0;     // of the request for messages or scores
    // Once they are generated:
    AnswerReply answers;
    MessageTokens messages;
    // What has come of the task or its verifier, and of the scorers of the run.
    std::vector<Score> scores;
    std::optional<ScoringReply> scoring;
  };

  void ask_from_start(uint32_t group);
  // Asks for the next turn of the answers that have one.
  void ask_turn(uint32_t group);
  void take_answers(uint32_t group, const InferenceReply& reply);
  void ask_for_messages(uint32_t group);
  static std::vector<const Conversation*> open_conversations(const Group& group);
  void take_messages(uint32_t group, const std::vector<Reply>& replies);
  void complete(uint32_t group);
  void ask_for_scores(uint32_t group);
  void send_score_request(uint32_t group, ScoreKind kind, const std::vector<const Conversation*>& of);
  void ask_scorers(uint32_t group);
  // Pushes what all scores have come for.
  void put_scores(uint32_t group);
  // Throws ScoringFailed when too many prompts in a row have no score.
  void count_scored(const std::vector<Score>& scores);
  void push(const ScoreOrder::Scored& scored);
  void record(const Group& answered, const std::vector<Score>& scores);

  RunConfig config_;
  std::shared_ptr<const TokenRun> tokens_;
  std::vector<Group> groups_;
  ScoreOrder scores_, messages_;                          // requests for them
  size_t fewest_;                                         // answers with a score that are of use in a group
  uint32_t epoch_ = 0;                                    // of the start of the run
  uint32_t failed_in_a_row_ = 0, unscored_in_a_row_ = 0;  // prompts
  uint64_t next_prompt_ = 0;
  std::optional<PromptSampler> prompts_;  // with task.sampling failure_weighted
};

}  // namespace troupe
