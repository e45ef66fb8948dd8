#include "actors/experience/answers/answer_player.h"

#include <numeric>
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

OrderedJson json_of(const std::vector<Turn>& turns) {
  OrderedJson list = OrderedJson::array();
  for (const Turn& turn : turns) {
    list.push_back({{"answer", turn.answer}, {"message", turn.message}});
    if (turn.role != "user") list.back()["role"] = turn.role;
  }
  return list;
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
  if (!answer.details.earlier.empty()) line["turns"] = json_of(answer.details.earlier);
  if (answer.kl) line["kl"] = *answer.kl;
  if (score.scored == Scored::failed) line["problem"] = score.problem;
  return line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

AnswerPlayer::AnswerPlayer(const RunConfig& config, const TokenRun& run, Generator& generator, Grader* grader)
    : run_(run),
      generator_(generator),
      grader_(grader),
      together_(grader == nullptr ? 1 : grader->answers_per_call(ScoreKind::scores)),
      scheduler_(generator, run.generation(config)) {}

void AnswerPlayer::ask(Prompt prompt, std::vector<int32_t> ids, std::vector<uint64_t> keys, bool greedy) {
  const uint64_t ticket = asked_.size();
  Asked& asked = asked_.emplace_back(Asked{std::move(prompt), std::move(ids), std::move(keys), greedy, {}, {}});
  asked.conversations.resize(asked.keys.size());
  asked.open.resize(asked.keys.size());
  std::iota(asked.open.begin(), asked.open.end(), size_t{0});
  ask_turn(ticket);
}

void AnswerPlayer::ask_turn(uint64_t ticket) {
  const Asked& asked = asked_[static_cast<size_t>(ticket)];
  GenerationRequest request{.ticket = ticket,
                            .prompt = asked.ids,
                            .max_tokens = run_.answer_tokens,
                            .keys = {},
                            .greedy = asked.greedy ? asked.open.size() : 0,
                            .before = ticket};
  for (const size_t a : asked.open) {
    const Conversation& conversation = asked.conversations[a];
    request.keys.push_back(turn_key(asked.keys[a], conversation.turns().size()));
    if (!conversation.tokens().empty()) request.history.push_back(conversation.tokens());
  }
  scheduler_.add(std::move(request));
}

bool AnswerPlayer::continues(uint64_t ticket) {
  Asked& asked = asked_[static_cast<size_t>(ticket)];
  const auto turns = static_cast<int64_t>(asked.conversations[asked.open.front()].turns().size());
  if (grader_ == nullptr || turns == run_.turns) return false;
  std::vector<const Conversation*> of;
  for (const size_t a : asked.open) of.push_back(&asked.conversations[a]);
  const ScoreReply said = score_reply(*grader_, score_request(ScoreKind::replies, asked.prompt, of));
  if (!said.error.empty()) throw std::runtime_error(said.error);
  std::vector<size_t> open;
  for (size_t i = 0; i < said.replies.size(); ++i)
    if (continue_conversation(run_, said.replies[i], asked.conversations[asked.open[i]])) open.push_back(asked.open[i]);
  if (open.empty()) return false;
  asked.open = open;
  ask_turn(ticket);
  return true;
}

void AnswerPlayer::take(const Generation& done) {
  Asked& asked = asked_[static_cast<size_t>(done.ticket)];
  for (size_t i = 0; i < done.answers.size(); ++i)
    asked.conversations[asked.open[i]].add_answer(done.answers[i], run_.decode(done.answers[i].tokens));
  if (continues(done.ticket)) return;
  PlayedPrompt& played = played_.emplace_back();
  played.prompt = std::move(asked.prompt);
  for (const Conversation& each : asked.conversations)
    played.answers.push_back(
        {.text = each.text(),
         .tokens = each.sampled().tokens,
         .log_probs = each.sampled().log_probs,
         .messages = each.messages(),
         .message_lengths = each.message_lengths(),
         .details = each.details(),
         .finish = each.sampled().finish,
         .score = {.scored = each.problem().empty() ? Scored::none : Scored::failed, .problem = each.problem()}});
  waiting_ += asked.conversations.size();
  asked = {};
}

std::vector<PlayedPrompt> AnswerPlayer::step() {
  for (const Generation& done : scheduler_.step(generator_, 0)) take(done);
  if (waiting_ < together_ && !scheduler_.idle()) return {};
  if (grader_ != nullptr) score();
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
      request.details.push_back(answer.details);
    }
    requests.of.push_back(std::move(request));
  }
  ScoreReplies replies = score_replies(*grader_, requests);
  for (size_t i = 0; i < played_.size(); ++i) {
    ScoreReply& reply = replies.of[i];
    if (!reply.error.empty()) throw std::runtime_error(reply.error);
    for (size_t a = 0; a < reply.scores.size(); ++a) {
      PlayedAnswer& answer = played_[i].answers[a];
      if (answer.score.scored == Scored::failed) continue;
      answer.score = std::move(reply.scores[a]);
      check_turn_rewards(answer.details.earlier.size(), answer.score);
    }
  }
}

}  // namespace troupe
