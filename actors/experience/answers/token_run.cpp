#include "actors/experience/answers/token_run.h"

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "tasks/make_task.h"
#include "text/make_tokenizer.h"
#include "text/normalizer.h"

namespace troupe {
namespace {

// The tokenizer of the config; without an alphabet, that of the task.
std::shared_ptr<const Tokenizer> tokenizer_of(const RunConfig& config, const Task& task) {
  TokenizerConfig tokenizer = config.tokenizer;
  std::string alphabet = task.alphabet();
  if (config.task.turns > 1) alphabet = characters_of(alphabet + task.message_alphabet());
  if (tokenizer.kind == "char" && tokenizer.alphabet.empty()) tokenizer.alphabet = alphabet;
  std::shared_ptr<const Tokenizer> made = make_tokenizer(tokenizer);
  try {
    made->encode(alphabet);
  } catch (const ConfigError& missing) {
    throw ConfigError("tokenizer.alphabet: lacks a character of the task " + config.task.name + ": " + missing.what());
  }
  return made;
}

// The token that ends an answer: the first one; others that a model may write instead.
std::vector<int32_t> end_tokens_of(const Tokenizer& tokenizer, ChatTemplate chat) {
  std::vector<int32_t> result;
  const std::string own(end_of_answer(chat));
  if (!own.empty()) {
    for (const std::string& token : {std::string("<|im_start|>"), own})
      if (!tokenizer.id_of(token))
        throw ConfigError("tokenizer.chat_template: chatml needs the token " + token +
                          ", which the tokenizer lacks; use none");
    result.push_back(*tokenizer.id_of(own));
  }
  const std::optional<int32_t> end = tokenizer.eos();
  if (result.empty() && !end)
    throw ConfigError("tokenizer.eos: the tokenizer has no token that ends an answer; name one");
  if (end && (result.empty() || *end != result.front())) result.push_back(*end);
  return result;
}

// The fewest tokens with which a model may write the answer: white space before it does not count.
size_t fewest_tokens(const TokenRun& run, const std::string& answer) {
  const size_t plain = run.tokenizer->encode(answer).size();
  try {
    return std::min(plain, run.tokenizer->encode(' ' + answer).size());
  } catch (const ConfigError&) {  // there is no space in the alphabet
    return plain;
  }
}

// Why the model cannot write this answer, called `what`, in `tokens` without its end; empty if it can.
std::string problem_of(const TokenRun& run, const std::string& what, const std::string& answer, size_t tokens) {
  const std::vector<int32_t> ids = run.tokenizer->encode(answer);
  const std::string all = run.tokenizer->decode(ids), shown = "its " + what + " \"" + printable(answer) + '"';
  if (!run.stop.empty() && answer.find(run.stop) != std::string::npos)
    return shown + " has the text of generation.stop, which ends an answer";
  if (run.decode(ids) != all) return shown + " has a special token, which is left out of answers";
  if (all != answer && all != nfc(answer))
    return shown + " becomes \"" + printable(all) + "\" with the tokens of the tokenizer";
  const auto needed = static_cast<int64_t>(tokens) + 1;
  if (needed <= run.answer_tokens) return "";
  return shown + " has " + std::to_string(needed) + " tokens with the one that ends it, but generation.max_tokens is " +
         std::to_string(run.answer_tokens);
}

// In tokens: of a dataset the longest ones. A task that generates its prompts knows their bytes, and a token has at
// least one.
void set_lengths(TokenRun& run, int64_t most_answer_tokens) {
  int64_t answer = 0;
  const bool all = run.task->for_each_prompt([&](const Prompt& prompt) {
    run.prompt_tokens = std::max(run.prompt_tokens, static_cast<int64_t>(run.encode(prompt).size()));
    if (most_answer_tokens > 0) return;
    for (const std::string& text : {prompt.demonstration, run.task->short_answer(prompt)})
      answer = std::max(answer, static_cast<int64_t>(run.tokenizer->encode(text).size()));
  });
  if (!all) {
    const Task& task = *run.task;
    run.prompt_tokens = static_cast<int64_t>(task.max_prompt_length() + prompt_text(run.chat, "").size()) + 1;
    answer = static_cast<int64_t>(task.max_answer_length());
  }
  if (most_answer_tokens == 0 && answer == 0)
    throw ConfigError("generation.max_tokens: 0 takes the longest demonstration, and the task has none; set it");
  run.answer_tokens = most_answer_tokens > 0 ? most_answer_tokens : answer + 1;
}

// Of conversations.
void set_turns(TokenRun& run, const TaskConfig& config) {
  run.turns = config.turns;
  if (config.turns == 1) return;
  if (config.reply.empty() && !run.task->replies())
    throw ConfigError("task.turns: " + std::to_string(config.turns) + " has no effect with the task " +
                      printable(config.name) +
                      ", which gives no messages; use 1, set task.reply, or take a task that replies");
  run.message_text = config.message_tokens;
  if (run.message_text == 0 && config.reply.empty())
    run.message_text = static_cast<int64_t>(run.task->max_message_length());
  if (run.message_text == 0)
    throw ConfigError(
        "task.message_tokens: 0 takes the longest message of the task, and functions in Python know none; "
        "set it");
  // An answer that was cut, and a message of no text.
  for (const std::string_view role : kMessageRoles) {
    if (run.chat == ChatTemplate::none && role != "user") continue;
    const auto around = static_cast<int64_t>(run.encode_message("", Finish::length, role).size());
    run.message_tokens = std::max(run.message_tokens, run.message_text + around);
  }
}

// A pass holds whole answers, each after its prompt.
void check_micro_batch(const RunConfig& config, const TokenRun& run) {
  const int64_t most = config.trainer.micro_batch_tokens, answer = run.conversation_tokens();
  const std::string longest = std::to_string(run.prompt_tokens + answer);
  if (most > 0 && most < run.prompt_tokens + answer)
    throw ConfigError("trainer.micro_batch_tokens: " + std::to_string(most) +
                      " is less than the longest answer with its prompt, which may have " + longest + " tokens (" +
                      std::to_string(run.prompt_tokens) + " of the prompt and " + std::to_string(answer) + " of the " +
                      (run.turns > 1 ? "turns" : "answer") + "); use at least " + longest + ", or 0");
}

void check_overlong_buffer(const RunConfig& config, const TokenRun& run) {
  const int64_t buffer = config.algorithm.overlong_buffer;
  if (buffer > run.answer_tokens)
    throw ConfigError("algorithm.overlong_buffer: " + std::to_string(buffer) +
                      " is more than the largest number of tokens of an answer, " + std::to_string(run.answer_tokens) +
                      "; use at most that, or a larger generation.max_tokens");
}

}  // namespace

std::shared_ptr<const Tokenizer> run_tokenizer(const RunConfig& config) {
  const bool of_task = config.tokenizer.kind == "char" && config.tokenizer.alphabet.empty();
  return of_task ? tokenizer_of(config, *make_task(config.task)) : make_tokenizer(config.tokenizer);
}

void check_answers(const RunConfig& config, const TokenRun& run) {
  run.task->check_answers([&](const Prompt& prompt, const std::string& answer) {
    std::string problem = answer.empty() ? "" : problem_of(run, "right answer", answer, fewest_tokens(run, answer));
    if (problem.empty() && config.warmup.steps > 0 && prompt.demonstration.empty())
      return "it has no demonstration, which warmup.steps " + std::to_string(config.warmup.steps) + " needs";
    // The warm-up trains on these tokens.
    if (problem.empty() && config.warmup.steps > 0)
      problem =
          problem_of(run, "demonstration", prompt.demonstration, run.tokenizer->encode(prompt.demonstration).size());
    return problem;
  });
}

std::vector<int32_t> TokenRun::encode(const Prompt& prompt) const {
  return tokenizer->encode_prompt(prompt.messages.empty() ? prompt_text(chat, prompt.text)
                                                          : prompt_text(chat, prompt.messages));
}

std::vector<int32_t> TokenRun::encode_message(const std::string& text, Finish finish, std::string_view role) const {
  const auto [before, after] = message_frame(chat, role);
  std::vector<int32_t> ids = tokenizer->encode(before), content = tokenizer->encode(text),
                       end = tokenizer->encode(after);
  if (chat != ChatTemplate::none && finish != Finish::stop) ids.insert(ids.begin(), end_tokens.front());
  content.resize(std::min(content.size(), static_cast<size_t>(message_text)));
  ids.insert(ids.end(), content.begin(), content.end());
  ids.insert(ids.end(), end.begin(), end.end());
  return ids;
}

std::string TokenRun::decode(std::span<const int32_t> answer) const {
  std::string text = tokenizer->decode(answer, SpecialTokens::skip);
  if (!stop.empty()) text.erase(std::min(text.find(stop), text.size()));
  return text;
}

GenerationOptions TokenRun::generation(const RunConfig& config) const {
  return {.prefill_tokens = config.generation.prefill_tokens,
          .end_tokens = end_tokens,
          .stop = stop,
          .text_of = [tokens =
                          tokenizer](std::span<const int32_t> ids) { return tokens->decode(ids, SpecialTokens::skip); },
          .turns = turns > 1};
}

std::shared_ptr<const TokenRun> make_token_run(const RunConfig& config) {
  auto run = std::make_shared<TokenRun>();
  run->task = make_task(config.task);
  if (config.task.sampling == "failure_weighted" && run->task->listed(Split::train) == 0)
    throw ConfigError("task.sampling: \"failure_weighted\" needs a list of prompts, and the task " + config.task.name +
                      " generates its prompts; use \"permutation\", or the task dataset or one in Python");
  run->data_hash = run->task->data_hash();
  run->tokenizer = tokenizer_of(config, *run->task);
  run->chat = chat_template_of(config.tokenizer.chat_template);
  run->stop = config.generation.stop;
  run->end_tokens = end_tokens_of(*run->tokenizer, run->chat);
  set_lengths(*run, config.generation.max_tokens);
  set_turns(*run, config.task);
  check_micro_batch(config, *run);
  check_overlong_buffer(config, *run);
  return run;
}

}  // namespace troupe
