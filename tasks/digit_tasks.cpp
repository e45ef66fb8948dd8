// The tasks with a string of digits as answer: reverse, sort and addition.

#include <algorithm>
#include <array>

#include "tasks/arithmetic.h"
#include "tasks/task_table.h"

namespace troupe {

namespace {

using Kind = Setting::Kind;

// The answer has to be equal to the truth.
class ExactTask : public Task {
 private:
  bool is_right(const Prompt& prompt, std::string_view answer) const override { return answer == prompt.truth; }
};

// "48213097>": the same digits in another order.
class OrderTask : public ExactTask {
 public:
  OrderTask(int64_t digits, bool sorted) : digits_(digits), sorted_(sorted) {}

  std::string alphabet() const override { return characters_of(std::string(kDigits) + kMark); }
  size_t max_prompt_length() const override { return static_cast<size_t>(digits_) + 1; }
  size_t max_answer_length() const override { return static_cast<size_t>(digits_); }
  Prompt propose(Rng& rng) const override {
    const std::string digits = draw_digits(rng, digits_);
    std::string answer = digits;
    if (sorted_)
      std::ranges::sort(answer);
    else
      std::ranges::reverse(answer);
    return {digits + kMark, answer, answer};
  }

 private:
  static constexpr char kMark = '>';

  int64_t digits_;
  bool sorted_;
};

// "123+456="
class AdditionTask : public ExactTask {
 public:
  explicit AdditionTask(int64_t digits) : digits_(digits) {}

  std::string alphabet() const override { return characters_of(std::string(kDigits) + "+="); }
  size_t max_prompt_length() const override { return 2 * static_cast<size_t>(digits_) + 2; }
  size_t max_answer_length() const override { return static_cast<size_t>(digits_) + 1; }
  Prompt propose(Rng& rng) const override {
    const int64_t left = draw_number(rng, digits_);
    const int64_t right = draw_number(rng, digits_);
    const std::string sum = std::to_string(left + right);
    return {std::to_string(left) + '+' + std::to_string(right) + '=', sum, sum};
  }

 private:
  int64_t digits_;
};

std::span<const Setting> order_settings() {
  static constexpr std::array kSettings = {Setting{.key = "digits",
                                                   .kind = Kind::integer,
                                                   .default_value = 8,
                                                   .low = 2,
                                                   .high = 256,
                                                   .help = "digits of a prompt",
                                                   .owner = "tasks"}};
  return kSettings;
}

std::span<const Setting> addition_settings() {
  static constexpr std::array kSettings = {Setting{.key = "digits",
                                                   .kind = Kind::integer,
                                                   .default_value = 3,
                                                   .low = 1,
                                                   .high = 18,
                                                   .help = "digits of each of the two numbers",
                                                   .owner = "tasks"}};
  return kSettings;
}

}  // namespace

TaskEntry reverse_task() {
  return {"reverse", "write digits in reverse order", order_settings, [](const TaskParams& params) {
            return std::unique_ptr<Task>(std::make_unique<OrderTask>(params.integer("digits"), false));
          }};
}

TaskEntry sort_task() {
  return {"sort", "write digits in ascending order", order_settings, [](const TaskParams& params) {
            return std::unique_ptr<Task>(std::make_unique<OrderTask>(params.integer("digits"), true));
          }};
}

TaskEntry addition_task() {
  return {"addition", "add two whole numbers", addition_settings, [](const TaskParams& params) {
            return std::unique_ptr<Task>(std::make_unique<AdditionTask>(params.integer("digits")));
          }};
}

}  // namespace troupe
