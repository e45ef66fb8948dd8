#include "actors/experience/answers/conversation.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

template <class T> void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// What all answers have for each of their tokens, answer after answer.
template <class T, class From>
Array joined(std::span<const GeneratedAnswer> answers, std::vector<From> GeneratedAnswer::* member) {
  std::vector<T> all;
  for (const GeneratedAnswer& answer : answers) all.insert(all.end(), (answer.*member).begin(), (answer.*member).end());
  return Array::of(all);
}

}  // namespace

void Conversation::add_answer(const GeneratedAnswer& answer, std::string text) {
  message_lengths_.push_back(std::exchange(said_, 0));
  message_lengths_.resize(message_lengths_.size() + answer.tokens.size() - 1);
  append(tokens_, answer.tokens);
  append(sampled_.tokens, answer.tokens);
  append(sampled_.log_probs, answer.log_probs);
  append(sampled_.version, answer.version);
  sampled_.finish = answer.finish;
  ends_.push_back(sampled_.tokens.size());
  turns_.push_back({std::move(text)});
}

void Conversation::add_message(const Reply& reply, const std::vector<int32_t>& ids) {
  turns_.back().message = reply.message.value();
  turns_.back().role = reply.role;
  append(tokens_, ids);
  append(messages_, ids);
  said_ = static_cast<int32_t>(ids.size());
}

std::string problem_of_message(const TokenRun& run, const Reply& reply) {
  try {
    run.encode_message(reply.message.value(), Finish::stop, reply.role);
    return "";
  } catch (const ConfigError& refused) {
    return "the message \"" + printable(*reply.message) + "\" cannot be read by the model: " + refused.what();
  }
}

bool continue_conversation(const TokenRun& run, const Reply& reply, Conversation& conversation) {
  if (!reply.problem.empty()) conversation.fail(reply.problem);
  if (!reply.message) return false;
  try {
    conversation.add_message(reply, run.encode_message(*reply.message, conversation.sampled().finish, reply.role));
    return true;
  } catch (const ConfigError& refused) {
    conversation.fail("a message of the task: " + std::string(refused.what()));
    return false;
  }
}

void check_turn_rewards(size_t turns_before_last, Score& score) {
  const size_t given = score.turns.size();
  if (given == 0 || given == turns_before_last) return;
  score = {.scored = Scored::failed,
           .problem = "the score has " + std::to_string(given) + " rewards of turns, and the answer " +
                      std::to_string(turns_before_last) + " turns before the last"};
}

void check_turns(std::span<const Conversation> conversations, std::span<Score> scores) {
  for (size_t a = 0; a < scores.size(); ++a) {
    if (const std::string& problem = conversations[a].problem(); !problem.empty())
      scores[a] = {.scored = Scored::failed, .problem = problem};
    check_turn_rewards(conversations[a].turns().size() - 1, scores[a]);
  }
}

Array turn_rewards(std::span<const Conversation> conversations, std::span<const Score> scores) {
  if (std::ranges::all_of(scores, [](const Score& score) { return score.turns.empty(); })) return {};
  std::vector<float> rewards;
  for (size_t a = 0; a < conversations.size(); ++a) {
    const size_t first = rewards.size();
    rewards.resize(first + conversations[a].sampled().tokens.size());
    for (size_t turn = 0; turn < scores[a].turns.size(); ++turn)
      rewards[first + conversations[a].ends()[turn] - 1] = static_cast<float>(scores[a].turns[turn]);
  }
  return Array::of(rewards);
}

uint64_t turn_key(uint64_t key, size_t turn) { return turn == 0 ? key : derive_key(key, "turn", turn); }

std::vector<GeneratedAnswer> unpacked(const AnswerReply& reply) {
  const auto tokens = reply.tokens.view<int32_t>();
  const auto log_probs = reply.log_probs.view<float>();
  const auto version = reply.version.view<int64_t>(), offsets = reply.offsets.view<int64_t>();
  std::vector<GeneratedAnswer> answers;
  for (size_t a = 0; a + 1 < offsets.size(); ++a) {
    const auto begin = static_cast<size_t>(offsets[a]), end = static_cast<size_t>(offsets[a + 1]);
    GeneratedAnswer& answer = answers.emplace_back();
    answer.tokens.assign(tokens.begin() + begin, tokens.begin() + end);
    answer.log_probs.assign(log_probs.begin() + begin, log_probs.begin() + end);
    answer.version.assign(version.begin() + begin, version.begin() + end);
    answer.finish = static_cast<Finish>(reply.finish.view<uint8_t>()[a]);
  }
  return answers;
}

AnswerReply packed(std::span<const GeneratedAnswer> answers) {
  std::vector<int64_t> offsets{0};
  std::vector<uint8_t> finish;
  for (const GeneratedAnswer& answer : answers) {
    offsets.push_back(offsets.back() + static_cast<int64_t>(answer.tokens.size()));
    finish.push_back(static_cast<uint8_t>(answer.finish));
  }
  return {.tokens = joined<int32_t>(answers, &GeneratedAnswer::tokens),
          .offsets = Array::of(offsets),
          .log_probs = joined<float>(answers, &GeneratedAnswer::log_probs),
          .version = joined<int64_t>(answers, &GeneratedAnswer::version),
          .finish = Array::of(finish)};
}

AnswerReply packed(std::span<const Conversation> conversations) {
  std::vector<GeneratedAnswer> answers;
  for (const Conversation& conversation : conversations) answers.push_back(conversation.sampled());
  return packed(answers);
}

MessageTokens messages_of(std::span<const Conversation> conversations) {
  std::vector<int32_t> ids, lengths;
  for (const Conversation& conversation : conversations) {
    append(ids, conversation.messages());
    append(lengths, conversation.message_lengths());
  }
  return {Array::of(ids), Array::of(lengths)};
}

ScoreRequest score_request(ScoreKind kind, const Prompt& prompt, std::span<const Conversation* const> conversations) {
  ScoreRequest request{.prompt = prompt, .answers = {}, .kind = kind};
  for (const Conversation* conversation : conversations) {
    request.answers.push_back(conversation->text());
    request.details.push_back(conversation->details());
  }
  return request;
}

}  // namespace troupe
