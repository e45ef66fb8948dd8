#include "actors/experience/answers/answer_checks.h"

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

Misfit check(const char* name, const Array& array, DType dtype, int64_t count) {
  return check_array(name, array, dtype, Shape{count});
}

Misfit check_ids(const char* name, const Array& ids, const TokenRun& tokens) {
  const int32_t vocabulary = tokens.tokenizer->vocabulary_size();
  for (const int32_t id : ids.view<int32_t>())
    if (id < 0 || id >= vocabulary)
      return std::string(name) + ": token " + std::to_string(id) + ", expected 0 to " + std::to_string(vocabulary - 1);
  return std::nullopt;
}

// Offsets of `count` parts of `total` elements, each with 1 to `most`.
Misfit check_offsets(const char* name, const Array& array, int64_t count, int64_t total, int64_t most) {
  if (auto error = check(name, array, DType::i64, count + 1)) return error;
  const auto offsets = array.view<int64_t>();
  if (offsets.front() != 0 || offsets.back() != total) return std::string(name) + " do not cover the tokens";
  for (size_t i = 0; i + 1 < offsets.size(); ++i)
    if (offsets[i + 1] <= offsets[i] || offsets[i + 1] - offsets[i] > most)
      return std::string(name) + ": a part is empty or has more than " + std::to_string(most) + " tokens";
  return std::nullopt;
}

// Of all arrays but the offsets.
Misfit check_arrays(const AnswerReply& reply, int64_t answers) {
  Misfit error;
  const auto expect = [&error](int64_t count) {
    return [&error, count](const char* name, const Array& array, DType dtype) {
      if (!error) error = check(name, array, dtype, count);
    };
  };
  AnswerReply::per_token(reply, expect(reply.tokens.size()));
  AnswerReply::per_answer(reply, expect(answers));
  return error;
}

// `most`: tokens of an answer.
Misfit check_answers(const TokenRun& run, int64_t answers, int64_t most, const AnswerReply& t) {
  if (t.tokens.dtype() != DType::i32 || t.tokens.rank() != 1) return "tokens are not a list of int32";
  if (auto error = check_offsets("offsets", t.offsets, answers, t.tokens.size(), most)) return error;
  if (auto error = check_arrays(t, answers)) return error;
  if (auto error = check_ids("tokens", t.tokens, run)) return error;
  const auto finite = [](float x) { return std::isfinite(x) && x <= 0; };
  if (!std::ranges::all_of(t.log_probs.view<float>(), finite)) return "log_probs are not finite, or above 0";
  if (std::ranges::any_of(t.version.view<int64_t>(), [](int64_t version) { return version < 0; }))
    return "a version is negative";
  if (std::ranges::any_of(t.finish.view<uint8_t>(), [](uint8_t x) { return x > static_cast<uint8_t>(Finish::text); }))
    return "finish is above 2";
  return std::nullopt;
}

// Of answers of all turns, which have these offsets.
Misfit check_messages(const TokenRun& run, const MessageTokens& messages, const Array& offsets) {
  const auto begins = offsets.view<int64_t>();
  if (auto error = check("message_lengths", messages.lengths, DType::i32, run.turns > 1 ? begins.back() : 0))
    return error;
  if (messages.ids.dtype() != DType::i32 || messages.ids.rank() != 1) return "messages are not a list of int32";
  const auto lengths = messages.lengths.view<int32_t>();
  const int64_t most = (run.turns - 1) * run.message_tokens;
  int64_t all = 0;
  for (size_t a = 0; a + 1 < begins.size() && !lengths.empty(); ++a) {
    int64_t sum = 0;
    for (int64_t t = begins[a]; t < begins[a + 1]; ++t) {
      const int64_t length = lengths[static_cast<size_t>(t)];
      if (length < 0 || length > (t == begins[a] ? 0 : run.message_tokens))
        return "a message of " + std::to_string(length) + " tokens comes before token " + std::to_string(t - begins[a]);
      sum += length;
    }
    if (sum > most)
      return "an answer has messages of " + std::to_string(sum) + " tokens, expected at most " + std::to_string(most);
    all += sum;
  }
  if (messages.ids.size() != all)
    return std::to_string(messages.ids.size()) + " tokens of messages, expected " + std::to_string(all);
  return check_ids("messages", messages.ids, run);
}

Misfit check_prompt(const TokenRun& tokens, const Array& prompt) {
  if (prompt.dtype() != DType::i32 || prompt.rank() != 1) return "prompt is not a list of int32";
  if (prompt.empty() || prompt.size() > tokens.prompt_tokens)
    return "the prompt has " + std::to_string(prompt.size()) + " tokens, expected 1 to " +
           std::to_string(tokens.prompt_tokens);
  return check_ids("prompt", prompt, tokens);
}

// Log-probabilities by the reference of `count` tokens, which are there if scorers compute with it.
Misfit check_reference(const RunConfig& config, const Array& reference, int64_t count) {
  if (auto error = check("reference", reference, DType::f32, config.reference.by_scorers() ? count : 0)) return error;
  const auto is_log_prob = [](float x) { return std::isfinite(x) && x <= 0; };
  if (!reference.empty() && !std::ranges::all_of(reference.view<float>(), is_log_prob))
    return "reference: a log-probability is not finite, or above 0";
  return std::nullopt;
}

}  // namespace

Misfit misfit(const RunConfig& config, const TokenRun& tokens, const AnswerRequest& request) {
  if (auto error = check_prompt(tokens, request.prompt)) return error;
  const int64_t asked = answers_asked(config), answers = request.continues() ? request.keys.size() : asked;
  if (auto error = check("keys", request.keys, DType::i64, answers)) return error;
  if (answers < 1 || answers > asked) return std::to_string(answers) + " keys, expected 1 to " + std::to_string(asked);
  if (auto error = check("greedy", request.greedy, DType::u8, request.greedy.empty() ? 0 : answers)) return error;
  const auto greedy = request.greedy.view<uint8_t>();
  for (size_t i = 0; i < greedy.size(); ++i)
    if (greedy[i] > (needs_greedy_answer(config) && i + 1 == greedy.size() ? 1 : 0))
      return "answer " + std::to_string(i) + " is to be the most likely one";
  if (request.history.dtype() != DType::i32 || request.history.rank() != 1) return "history is not a list of int32";
  if (!request.continues()) return request.history.empty() ? std::nullopt : Misfit("a history has no offsets");
  if (auto error = check_offsets("history_offsets", request.history_offsets, answers, request.history.size(),
                                 tokens.conversation_tokens() - tokens.answer_tokens))
    return error;
  return check_ids("history", request.history, tokens);
}

Misfit misfit(const RunConfig& config, const TokenRun& tokens, const ScoringRequest& request) {
  if (auto error = check_prompt(tokens, request.prompt)) return error;
  if (request.tokens.dtype() != DType::i32 || request.tokens.rank() != 1) return "tokens are not a list of int32";
  if (auto error = check_offsets("offsets", request.offsets, answers_asked(config), request.tokens.size(),
                                 tokens.sampled_tokens()))
    return error;
  if (auto error = check_messages(tokens, request.messages, request.offsets)) return error;
  return check_ids("tokens", request.tokens, tokens);
}

Misfit misfit(const RunConfig& config, const ScoringRequest& request, const ScoringReply& reply) {
  if (auto error = check_reference(config, reply.reference, request.tokens.size())) return error;
  return check("scores", reply.scores, DType::f32, config.reward_model.by_scorers() ? request.count() : 0);
}

Misfit misfit(const TokenRun& tokens, const AnswerRequest& request, const AnswerReply& reply) {
  return check_answers(tokens, request.keys.size(), tokens.answer_tokens, reply);
}

Misfit answers_misfit(const RunSpec& run, const Rollout& rollout) {
  const TokenRun& tokens = *run.tokens;
  const Answers& a = rollout.answers();
  const int64_t asked = answers_asked(run.config), answers = a.count();
  const uint64_t greedy = needs_greedy_answer(run.config) ? 1 : 0;
  if (answers > run.config.generation.answers)
    return std::to_string(answers) + " answers, expected at most " + std::to_string(run.config.generation.answers);
  if (auto error = check_answers(tokens, answers, tokens.sampled_tokens(), a.sampled)) return error;
  if (auto error = check_messages(tokens, a.messages, a.sampled.offsets)) return error;
  if (a.prompts.dtype() != DType::i32 || a.prompts.rank() != 1) return "prompts are not a list of int32";
  if (auto error = check_offsets("prompt_offsets", a.prompt_offsets, 1, a.prompts.size(), tokens.prompt_tokens))
    return error;
  if (auto error = check_ids("prompts", a.prompts, tokens)) return error;
  if (auto error = check("group", a.group, DType::i32, answers)) return error;
  if (auto error = check("rewards", a.rewards, DType::f32, answers)) return error;
  if (auto error = check("right", a.right, DType::u8, answers)) return error;
  if (std::ranges::any_of(a.group.view<int32_t>(), [](int32_t group) { return group != 0; }))
    return "an answer belongs to another prompt";
  if (auto error = check("baselines", a.baselines, DType::f32, static_cast<int64_t>(greedy))) return error;
  if (auto error = check_reference(run.config, a.reference, a.sampled.tokens.size())) return error;
  if (auto error =
          check("turn_rewards", a.turn_rewards, DType::f32, a.turn_rewards.empty() ? 0 : a.sampled.tokens.size()))
    return error;
  const auto finite = [](float x) { return std::isfinite(x); };
  if (!std::ranges::all_of(a.turn_rewards.view<float>(), finite)) return "turn_rewards are not finite";
  if (!std::ranges::all_of(a.rewards.view<float>(), finite)) return "rewards are not finite";
  if (!std::ranges::all_of(a.baselines.view<float>(), finite)) return "baselines are not finite";
  if (auto error = check("returns", rollout.episodes.returns, DType::f32, answers)) return error;
  if (auto error = check("lengths", rollout.episodes.lengths, DType::i32, answers)) return error;
  if (auto error = check("success", rollout.episodes.success, DType::u8, answers)) return error;
  const auto count = static_cast<uint64_t>(answers);
  if (rollout.samples != count) return std::to_string(rollout.samples) + " samples, expected " + std::to_string(count);
  if (rollout.baselines > greedy || (answers > 0 && rollout.baselines < greedy))
    return std::to_string(rollout.baselines) + " baselines, expected " + std::to_string(greedy);
  const uint64_t without = static_cast<uint64_t>(asked - answers) - rollout.baselines;
  if (rollout.env_steps != static_cast<uint64_t>(asked) || rollout.unscored > without ||
      rollout.verifier_failed != without - rollout.unscored)
    return std::to_string(rollout.unscored) + " + " + std::to_string(rollout.verifier_failed) + " of " +
           std::to_string(rollout.env_steps) + " answers without a score, expected " + std::to_string(without) +
           " of " + std::to_string(asked);
  if (answers == 0) return std::nullopt;
  const auto version = a.sampled.version.view<int64_t>();
  if (static_cast<uint64_t>(std::ranges::min(version)) != rollout.oldest ||
      static_cast<uint64_t>(std::ranges::max(version)) != rollout.newest)
    return "its versions are not those of its tokens";
  return std::nullopt;
}

namespace {

// Of `count` answers with at most `tokens` tokens each.
size_t bytes_of_answers(size_t count, int64_t tokens) {
  size_t token = 0, answer = sizeof(int64_t);  // its offset
  const auto add_to = [](size_t& bytes) {
    return [&bytes](const char*, const Array&, DType dtype) { bytes += size_of(dtype); };
  };
  const AnswerReply empty;
  AnswerReply::per_token(empty, add_to(token));
  AnswerReply::per_answer(empty, add_to(answer));
  return count * (answer + static_cast<size_t>(tokens) * token);
}

// What a run of several turns has beside the tokens of an answer.
size_t bytes_of_messages(const TokenRun& run) {
  if (run.turns == 1) return 0;
  return static_cast<size_t>(2 * run.sampled_tokens() + run.conversation_tokens()) * sizeof(int32_t);
}

}  // namespace

size_t most_bytes_of_answer_request(const RunSpec& run) {
  const TokenRun& tokens = *run.tokens;
  const auto answers = static_cast<size_t>(answers_asked(run.config));
  const size_t scored =  // of an answer, in a request for scores
      has_scorers(run.config) ? static_cast<size_t>(tokens.sampled_tokens()) * sizeof(int32_t) : 0;
  return static_cast<size_t>(tokens.prompt_tokens) * sizeof(int32_t) +
         answers * (scored + bytes_of_messages(tokens) + sizeof(uint8_t)) + 2 * (answers + 1) * sizeof(int64_t) +
         kNamesBytes;
}

size_t most_bytes_of_answer_reply(const RunSpec& run) {
  return bytes_of_answers(static_cast<size_t>(answers_asked(run.config)), run.tokens->answer_tokens) + kNamesBytes;
}

size_t most_bytes_of_answers(const RunSpec& run) {
  // Group, reward and right; and, of its episode, length, return and success.
  constexpr size_t kScoredBytes = 2 * (sizeof(int32_t) + sizeof(float) + sizeof(uint8_t));
  const TokenRun& tokens = *run.tokens;
  const auto answers = static_cast<size_t>(answers_asked(run.config));
  const size_t reference =
      run.config.reference.by_scorers() ? static_cast<size_t>(tokens.sampled_tokens()) * sizeof(float) : 0;
  return most_bytes_of_answer_request(run) + bytes_of_answers(answers, tokens.sampled_tokens()) +
         answers * (kScoredBytes + reference) + kNamesBytes;
}

}  // namespace troupe
