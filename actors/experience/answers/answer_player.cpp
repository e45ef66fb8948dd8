#include "actors/experience/answers/answer_player.h"

#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

namespace troupe {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_of(const Prompt& prompt) {
  if (prompt.messages.empty()) return prompt.text;
  OrderedJson messages = OrderedJson::array();
  for (const auto& [role, content] : prompt.messages) messages.push_back({{"role", role}, {"content", content}});
  return messages;
}

const char* finish_name(Finish finish) {
  if (finish == Finish::stop) return "stop";
  return finish == Finish::length ? "length" : "text";
}

}  // namespace

std::string answer_line(PolicyVersion version, const Prompt& prompt, const PlayedAnswer& answer) {
  const Score& score = answer.score;
  const bool scored = score.scored == Scored::yes;
  OrderedJson parts = OrderedJson::object();
  for (const auto& [name, value] : score.parts) parts[name] = value;
  OrderedJson line{{"updates", version.number},
                   {"epoch", version.epoch},
                   {"prompt", json_of(prompt)},
                   {"answer", answer.text},
                   {"reward", scored ? OrderedJson(score.reward) : OrderedJson()},
                   {"right", scored ? OrderedJson(score.right) : OrderedJson()},
                   {"parts", parts},
                   {"finish", finish_name(answer.finish)},
                   {"tokens", answer.tokens.size()}};
  if (answer.kl) line["kl"] = *answer.kl;
  if (score.scored == Scored::failed) line["problem"] = score.problem;
  return line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

AnswerPlayer::AnswerPlayer(const RunConfig& config, const TokenRun& run, Generator& generator, Scorer* scorer)
    : run_(run),
      generator_(generator),
      scorer_(scorer),
      together_(scorer == nullptr ? 1 : scorer->answers_per_call()),
      scheduler_(generator, run.generation(config)) {}

void AnswerPlayer::ask(Prompt prompt, std::vector<int32_t> ids, std::vector<uint64_t> keys, bool greedy) {
  const size_t answers = keys.size();
  scheduler_.add({.ticket = prompts_.size(),
                  .prompt = std::move(ids),
                  .max_tokens = run_.answer_tokens,
                  .keys = std::move(keys),
                  .greedy = greedy ? answers : 0});
  prompts_.push_back(std::move(prompt));
}

std::vector<PlayedPrompt> AnswerPlayer::step() {
  for (const Generation& done : scheduler_.step(generator_, 0)) {
    PlayedPrompt& played = played_.emplace_back();
    played.prompt = std::move(prompts_[static_cast<size_t>(done.ticket)]);
    for (const GeneratedAnswer& answer : done.answers)
      played.answers.push_back({.text = run_.decode(answer.tokens),
                                .tokens = answer.tokens,
                                .log_probs = answer.log_probs,
                                .finish = answer.finish,
                                .score = {.scored = Scored::none}});
    waiting_ += done.answers.size();
  }
  if (waiting_ < together_ && !scheduler_.idle()) return {};
  if (scorer_ != nullptr) score();
  waiting_ = 0;
  return std::exchange(played_, {});
}

std::vector<PlayedPrompt> AnswerPlayer::finish() {
  std::vector<PlayedPrompt> result;
  while (!complete())
    for (PlayedPrompt& played : step()) result.push_back(std::move(played));
  return result;
}

void AnswerPlayer::score() {
  ScoreRequests requests;
  for (const PlayedPrompt& played : played_) {
    ScoreRequest request{.prompt = played.prompt, .answers = {}};
    for (const PlayedAnswer& answer : played.answers) {
      request.answers.push_back(answer.text);
      request.tokens.push_back(answer.tokens);
    }
    requests.of.push_back(std::move(request));
  }
  ScoreReplies replies = score_replies(*scorer_, requests);
  for (size_t i = 0; i < played_.size(); ++i) {
    ScoreReply& reply = replies.of[i];
    if (!reply.error.empty()) throw std::runtime_error(reply.error);
    for (size_t a = 0; a < reply.scores.size(); ++a) played_[i].answers[a].score = std::move(reply.scores[a]);
  }
}

}  // namespace troupe
