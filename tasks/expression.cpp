#include "tasks/expression.h"

namespace troupe {

namespace {

// Recursive descent. Every function returns nullopt as soon as the text cannot be an expression.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<Expression> run() {
    const auto value = sum(0);
    if (!value || peek() != kEnd) return std::nullopt;
    return Expression{*value, std::move(numbers_)};
  }

 private:
  static constexpr char kEnd = '\0';
  static constexpr int kMaxDigits = 18;

  // The next character that is not a space, or kEnd. A zero byte in the text also counts as kEnd, but not as the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ >= text_.size()) return kEnd;
    return text_[at_] == kEnd ? '?' : text_[at_];
  }

  std::optional<Rational> sum(int depth) { return chain(depth, '+', '-', &Parser::product); }
  std::optional<Rational> product(int depth) { return chain(depth, '*', '/', &Parser::operand); }

  // Operands joined by two operators of equal rank.
  std::optional<Rational> chain(int depth, char first, char second, std::optional<Rational> (Parser::*part)(int)) {
    std::optional<Rational> value = (this->*part)(depth);
    while (value && (peek() == first || peek() == second)) {
      const char operation = text_[at_++];
      const std::optional<Rational> right = (this->*part)(depth);
      value = right ? calculate(*value, operation, *right) : std::nullopt;
    }
    return value;
  }

  std::optional<Rational> operand(int depth) {
    if (peek() != '(') return number();
    if (depth >= kMaxExpressionDepth) return std::nullopt;
    ++at_;
    const auto value = sum(depth + 1);
    if (peek() != ')') return std::nullopt;
    ++at_;
    return value;
  }

  std::optional<Rational> number() {
    peek();
    int64_t value = 0;
    int digits = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits) {
      if (digits == kMaxDigits) return std::nullopt;
      value = 10 * value + (text_[at_] - '0');
    }
    if (digits == 0) return std::nullopt;
    numbers_.push_back(value);
    return Rational{value, 1};
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<int64_t> numbers_;
};

}  // namespace

std::optional<Expression> evaluate_expression(std::string_view text) {
  if (text.size() > kMaxExpressionBytes) return std::nullopt;
  return Parser(text).run();
}

}  // namespace troupe
