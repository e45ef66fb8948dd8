// The task countdown: reach a target by an arithmetic expression over given numbers, each used at most once.

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

#include "runtime/base/errors.h"
#include "tasks/answer_match.h"
#include "tasks/arithmetic.h"
#include "tasks/expression.h"
#include "tasks/task_table.h"

namespace troupe {

namespace {

using Kind = Setting::Kind;

// A value that was reached, and how.
struct Term {
  int64_t value;
  std::string text;
  int rank;  // of the last operator: 0 for + and -, 1 for * and /, 2 for a number
};

struct Step {
  char operation;
  int64_t value;
};

// The operations on two values that give a whole number from 1 to `largest`. Never empty for values in that range: the
// larger minus the smaller is one, or, of equal values, the quotient.
std::vector<Step> possible_steps(int64_t a, int64_t b, int64_t largest) {
  std::vector<Step> steps;
  if (a + b <= largest) steps.push_back({'+', a + b});
  if (a > b) steps.push_back({'-', a - b});
  if (a <= largest / b) steps.push_back({'*', a * b});
  if (a % b == 0) steps.push_back({'/', a / b});
  return steps;
}

// `a OPERATION b` with the parentheses that it needs.
Term joined(const Term& a, const Step& step, const Term& b) {
  const int rank = step.operation == '+' || step.operation == '-' ? 0 : 1;
  const bool right_too = step.operation == '-' || step.operation == '/';  // a - (b + c)
  const auto inside = [](const Term& term, bool enclosed) { return enclosed ? '(' + term.text + ')' : term.text; };
  return {step.value,
          inside(a, a.rank < rank) + step.operation + inside(b, b.rank < rank || (right_too && b.rank == rank)), rank};
}

// A term taken out of the list.
Term take(std::vector<Term>& terms, Rng& rng) {
  const size_t at = rng.below(terms.size());
  Term term = std::move(terms[at]);
  terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(at));
  return term;
}

class CountdownTask : public Task {
 public:
  CountdownTask(int64_t numbers, int64_t max_number, int64_t max_target, bool english)
      : numbers_(numbers), max_number_(max_number), max_target_(max_target), english_(english) {}

  std::string alphabet() const override { return characters_of(kDigits + ("+-*/()" + prompt_of({1, 1}, 1))); }

  size_t max_prompt_length() const override {
    return prompt_of(std::vector<int64_t>(static_cast<size_t>(numbers_), max_number_), max_target_).size();
  }
  // Each number with an operator, and parentheses around each value but the last.
  size_t max_answer_length() const override {
    const auto numbers = static_cast<size_t>(numbers_);
    return numbers * (std::to_string(max_number_).size() + 1) + 2 * (numbers - 2);
  }

  bool replies() const override { return true; }
  size_t max_message_length() const override {
    return std::max(hint("", max_target_).size(), hint(std::string(kLongestValue, '9'), max_target_).size());
  }
  std::string message_alphabet() const override { return characters_of(kDigits + ("-/" + hint("", 1) + hint("1", 1))); }
  // After a wrong answer the value of the expression; empty where it has none, uses other numbers, or is long.
  std::optional<std::string> reply(const Prompt& prompt, std::span<const Turn> turns) const override;

  // An expression over the given numbers, of any value.
  std::string attempt(const Prompt& prompt, Rng& rng) const override;

  // The demonstration uses all numbers; another answer may need fewer.
  std::string short_answer(const Prompt&) const override { return ""; }
  // Joins terms until one is left. Its value, the target, can be one of the numbers, which another attempt avoids.
  Prompt propose(Rng& rng) const override {
    constexpr int kAttempts = 8;
    for (int attempt = 1;; ++attempt) {
      std::vector<int64_t> numbers;
      for (int64_t i = 0; i < numbers_; ++i)
        numbers.push_back(1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(max_number_))));
      const Term answer = joined_at_random(numbers, rng);
      if (attempt < kAttempts && std::ranges::find(numbers, answer.value) != numbers.end()) continue;
      return {prompt_of(numbers, answer.value), truth_of(numbers, answer.value), answer.text};
    }
  }

 private:
  static constexpr size_t kLongestValue = 6;

  // "=84:"
  std::string hint(const std::string& value, int64_t target) const {
    if (!english_) return '=' + value + ':';
    if (value.empty()) return "That is no expression with the given numbers. Try again.";
    return "That equals " + value + ", not " + std::to_string(target) + ". Try again.";
  }

  Term joined_at_random(const std::vector<int64_t>& numbers, Rng& rng) const {
    std::vector<Term> terms;
    for (const int64_t number : numbers) terms.push_back({number, std::to_string(number), 2});
    while (terms.size() > 1) {
      Term a = take(terms, rng), b = take(terms, rng);
      if (a.value < b.value) std::swap(a, b);
      const std::vector<Step> steps = possible_steps(a.value, b.value, max_target_);
      terms.push_back(joined(a, steps[rng.below(steps.size())], b));
    }
    return terms[0];
  }

  // "3,7,25,50=82:"
  std::string prompt_of(const std::vector<int64_t>& numbers, int64_t target) const {
    std::string list;
    for (const int64_t number : numbers) list += (list.empty() ? "" : english_ ? ", " : ",") + std::to_string(number);
    if (!english_) return list + '=' + std::to_string(target) + ':';
    return "Using the numbers " + list +
           ", each at most once, write an expression with + - * / and parentheses that equals " +
           std::to_string(target) + ". Answer with the expression only.";
  }

  // The target, then the numbers: "82 3 7 25 50".
  static std::string truth_of(const std::vector<int64_t>& numbers, int64_t target) {
    std::string truth = std::to_string(target);
    for (const int64_t number : numbers) truth += ' ' + std::to_string(number);
    return truth;
  }

  bool is_right(const Prompt& prompt, std::string_view answer) const override;

  int64_t numbers_, max_number_, max_target_;
  bool english_;
};

struct Given {
  int64_t target = 0;
  std::vector<int64_t> numbers;
};

Given given_in(const Prompt& prompt) {
  std::istringstream truth(prompt.truth);
  Given given;
  truth >> given.target;
  for (int64_t number = 0; truth >> number;) given.numbers.push_back(number);
  return given;
}

// The value of an expression that uses each given number at most once.
std::optional<Rational> value_of(Given given, std::string_view answer) {
  const auto expression = evaluate_expression(answer);
  if (!expression) return std::nullopt;
  for (const int64_t number : expression->numbers) {
    const auto found = std::ranges::find(given.numbers, number);
    if (found == given.numbers.end()) return std::nullopt;
    given.numbers.erase(found);
  }
  return expression->value;
}

bool CountdownTask::is_right(const Prompt& prompt, std::string_view answer) const {
  const Given given = given_in(prompt);
  return value_of(given, answer) == Rational{given.target, 1};
}

std::string CountdownTask::attempt(const Prompt& prompt, Rng& rng) const {
  return joined_at_random(given_in(prompt).numbers, rng).text;
}

std::optional<std::string> CountdownTask::reply(const Prompt& prompt, std::span<const Turn> turns) const {
  const std::string& answer = turns.back().answer;
  if (score(prompt, answer).right) return std::nullopt;
  const Given given = given_in(prompt);
  const auto value = value_of(given, trimmed(answer));
  std::string text = value ? std::to_string(value->numerator) : "";
  if (value && value->denominator != 1) text += '/' + std::to_string(value->denominator);
  return hint(text.size() > kLongestValue ? "" : text, given.target);
}

std::span<const Setting> countdown_settings() {
  static constexpr std::array kSettings = {
      Setting{.key = "numbers",
              .kind = Kind::integer,
              .default_value = 4,
              .low = 2,
              .high = 8,
              .help = "numbers of a prompt",
              .owner = "tasks"},
      Setting{.key = "max_number",
              .kind = Kind::integer,
              .default_value = 25,
              .low = 4,
              .high = 1000,
              .help = "largest number of a prompt; the smallest is 1",
              .owner = "tasks"},
      Setting{.key = "max_target",
              .kind = Kind::integer,
              .default_value = 100,
              .low = 4,
              .high = 100000,
              .help = "largest target, and largest value on the way to it; at least max_number",
              .owner = "tasks"},
      Setting{.key = "wording",
              .kind = Kind::text,
              .default_value = 0,
              .choices = kWords<"symbols", "english">,
              .help = "symbols: 3,7,25,50=82:; english: a sentence for a language model",
              .owner = "tasks"},
  };
  return kSettings;
}

std::unique_ptr<Task> make_countdown(const TaskParams& params) {
  const int64_t number = params.integer("max_number"), target = params.integer("max_target");
  if (target < number)
    throw ConfigError("task.params.max_target: " + std::to_string(target) +
                      " is smaller than task.params.max_number, " + std::to_string(number) +
                      "; expected at least that");
  return std::make_unique<CountdownTask>(params.integer("numbers"), number, target,
                                         params.text("wording") == "english");
}

}  // namespace

TaskEntry countdown_task() {
  return {"countdown", "reach a target with an arithmetic expression over given numbers", countdown_settings,
          make_countdown};
}

}  // namespace troupe
