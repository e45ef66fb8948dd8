// The task chain_sum: sums and differences of several numbers.

#include <array>

#include "tasks/arithmetic.h"
#include "tasks/task_table.h"

namespace troupe {

namespace {

using Kind = Setting::Kind;

// "12+7-25=", or in English: "Calculate 12 + 7 - 25. Answer with the number only."
class ChainSumTask : public Task {
 public:
  ChainSumTask(int64_t terms, int64_t digits, bool english) : terms_(terms), digits_(digits), english_(english) {}

  std::string alphabet() const override { return characters_of(std::string(kDigits) + "+-" + prompt_around("")); }
  size_t max_prompt_length() const override {
    const auto terms = static_cast<size_t>(terms_), digits = static_cast<size_t>(digits_);
    return prompt_around("").size() + terms * digits + (terms - 1) * (english_ ? 3 : 1);
  }
  // The largest magnitude is that of a sum, or of a difference with a sign.
  size_t max_answer_length() const override { return std::to_string(terms_ * (power_of_ten(digits_) - 1)).size() + 1; }
  Prompt propose(Rng& rng) const override {
    int64_t sum = draw_number(rng, digits_);
    std::string terms = std::to_string(sum);
    for (int64_t i = 1; i < terms_; ++i) {
      const bool add = rng.below(2) == 0;
      const int64_t term = draw_number(rng, digits_);
      sum += add ? term : -term;
      terms += english_ ? (add ? " + " : " - ") : (add ? "+" : "-");
      terms += std::to_string(term);
    }
    const std::string answer = std::to_string(sum);
    return {prompt_around(terms), answer, answer};
  }

 private:
  std::string prompt_around(const std::string& terms) const {
    return english_ ? "Calculate " + terms + ". Answer with the number only." : terms + '=';
  }
  bool is_right(const Prompt& prompt, std::string_view answer) const override { return answer == prompt.truth; }

  int64_t terms_, digits_;
  bool english_;
};

std::span<const Setting> chain_sum_settings() {
  static constexpr std::array kSettings = {
      Setting{.key = "terms",
              .kind = Kind::integer,
              .default_value = 3,
              .low = 2,
              .high = 32,
              .help = "numbers of a prompt",
              .owner = "tasks"},
      Setting{.key = "digits",
              .kind = Kind::integer,
              .default_value = 2,
              .low = 1,
              .high = 15,
              .help = "digits of each number",
              .owner = "tasks"},
      Setting{.key = "wording",
              .kind = Kind::text,
              .default_value = 0,
              .choices = kWords<"symbols", "english">,
              .help = "symbols: 12+7-25=; english: a sentence for a language model",
              .owner = "tasks"},
  };
  return kSettings;
}

}  // namespace

TaskEntry chain_sum_task() {
  return {"chain_sum", "add and subtract several whole numbers", chain_sum_settings, [](const TaskParams& params) {
            return std::unique_ptr<Task>(std::make_unique<ChainSumTask>(
                params.integer("terms"), params.integer("digits"), params.text("wording") == "english"));
          }};
}

}  // namespace troupe
