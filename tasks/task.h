#pragma once
// Task: a source of prompts whose answers are checked by code. Tasks are created by make_task() (tasks/make_task.h) and
// never change after that; any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/rng.h"

namespace troupe {

class Checksum;

struct Prompt {
  std::string text;           // what the model is asked; no other prompt of the task has the same
  std::string truth;          // what score() needs to check an answer
  std::string demonstration;  // a right answer, for supervised training
  std::string columns = {};   // JSON object for verifiers: everything that the source says of the prompt; or empty
  // Of a conversation: its messages as (role, content), the last by the user or a tool. Its text is then the list as
  // JSON. Empty if the text is all that is asked.
  std::vector<std::pair<std::string, std::string>> messages = {};
  std::string source = {};  // where it is from, as its dataset says; figures are told apart by it
};

// Whether an answer has a score.
enum class Scored : uint8_t {
  yes,
  none,    // no: the verifier does not apply to it
  failed,  // no: the verifier failed on it
};

struct Score {
  double reward = 0;
  bool right = false;
  std::vector<std::pair<std::string, double>> parts = {};  // of the reward, by name
  std::vector<double> turns = {};  // of the reward, what comes with the ends of the turns before the last; or empty
  Scored scored = Scored::yes;
  std::string problem = {};  // why it failed, in one line
};

// Whose a message after an answer may be.
inline constexpr std::array<std::string_view, 2> kMessageRoles = {"user", "tool"};

// An answer of a conversation, and the message that followed it.
struct Turn {
  std::string answer;
  std::string message = {};
  std::string role = "user";  // of the message, one of kMessageRoles
};

// What a task says to an answer.
struct Reply {
  std::optional<std::string> message = {};  // none: the conversation ends with the answer
  std::string role = "user";                // of the message, one of kMessageRoles
  std::string problem = {};                 // why there is none, in one line, if the task failed on it
};

// Every prompt of a task belongs to one of the two, so that prompts of an evaluation never occur in training.
enum class Split : uint8_t { train, held_out };

// The split of a prompt: held out if derive_key(0, TEXT) (runtime/base/rng.h) is a multiple of 8, so about one prompt
// of 8.
Split split_of(std::string_view text);

// No right answer of a task that generates its prompts is as long.
inline constexpr size_t kMaxAnswerBytes = 1024;

class Task {
 public:
  virtual ~Task() = default;
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // The next prompt of this split. The same task and the same state of `rng` give the same prompt on every machine.
  virtual Prompt draw(Rng& rng, Split split) const;

  // The n-th prompt of the walk that `key` chooses. Prompts of a file come in another order in each pass over them,
  // each once per pass.
  virtual Prompt prompt(uint64_t key, uint64_t n, Split split) const;

  // The number of prompts, where it is a list, and each of them; 0 if the task generates its prompts.
  virtual uint64_t listed(Split /*split*/) const { return 0; }
  virtual Prompt listed_prompt(uint64_t number, Split split) const;

  // A prompt of either split.
  virtual Prompt propose(Rng& rng) const = 0;

  // Different held-out prompts, for an evaluation: `most`, or all where the task has no more. The same key gives the
  // same ones on every machine.
  virtual std::vector<Prompt> held_out(uint64_t key, int64_t most) const;

  // A right answer of few bytes; empty if the task knows none that no other undercuts by much.
  virtual std::string short_answer(const Prompt& prompt) const { return prompt.demonstration; }
  // Throws ConfigError for a prompt, of all in a file or of some generated ones, for which `problem`, given its
  // short_answer(), returns why it cannot be answered right.
  using AnswerProblem = std::function<std::string(const Prompt& prompt, const std::string& answer)>;
  virtual void check_answers(const AnswerProblem& problem) const;

  // The score of an answer to a prompt of this task. An answer may be any bytes: what is not a right answer gets
  // {0, false}. White space before and after an answer does not count.
  virtual Score score(const Prompt& prompt, std::string_view answer) const;

  // Whether it replies to answers.
  virtual bool replies() const { return false; }
  // The message after the last of these answers to a prompt, or none: the conversation ends. At most
  // max_message_length() bytes.
  virtual std::optional<std::string> reply(const Prompt& /*prompt*/, std::span<const Turn> /*turns*/) const {
    return std::nullopt;
  }
  virtual size_t max_message_length() const { return 0; }
  // An answer in the form of a right one that need not be right, to which demonstrations of later turns reply; empty if
  // the task has none.
  virtual std::string attempt(const Prompt& /*prompt*/, Rng& /*rng*/) const { return ""; }
  // The characters of all messages, each once, in UTF-8.
  virtual std::string message_alphabet() const { return ""; }

  // The characters of all prompts and demonstrations, each once, in UTF-8. Generated prompts are ASCII.
  virtual std::string alphabet() const = 0;
  // Calls `visit` with every prompt of both splits and returns true; false if the task generates its prompts. Throws
  // the ConfigError of `visit`, after the place of the prompt.
  virtual bool for_each_prompt(const std::function<void(const Prompt&)>& /*visit*/) const { return false; }
  // The files that it was read from.
  virtual std::vector<std::string> files() const { return {}; }
  // Upper limits of all prompts and demonstrations, in bytes.
  virtual size_t max_prompt_length() const = 0;
  virtual size_t max_answer_length() const = 0;
  // Longer answers are wrong, in bytes.
  virtual size_t longest_scored_answer() const { return kMaxAnswerBytes; }
  // XXH3 of the prompts, truths, demonstrations and columns: of all in a file, of some where the task generates them.
  // Equal on every machine.
  virtual uint64_t data_hash() const;

 private:
  // Whether the answer, without white space around it and at most longest_scored_answer() long, is right.
  virtual bool is_right(const Prompt& prompt, std::string_view answer) const = 0;
};

// Throws ConfigError "PATH: ..." if fewer than 1 in 100 prompts of the task belong to one of the splits, as with very
// few different prompts.
void require_both_splits(const Task& task, const std::string& path);

// Adds a prompt to a data_hash().
void add_prompt(Checksum& hash, const Prompt& prompt);

// The characters of the texts, each once, sorted.
std::string characters_of(std::string_view text);

}  // namespace troupe
