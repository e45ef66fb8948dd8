#include "runtime/config/effects.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "runtime/base/suggest.h"
#include "runtime/config/setting_rules.h"

namespace troupe {
namespace {

bool exists(const Condition& condition) { return !condition.path.empty() || !condition.words.empty(); }

// The value as in messages: texts in quotes, objects as they are.
struct ShownValue {
  std::string operator()(const std::optional<double>* value) const {
    return value->has_value() ? number_text(**value) : "null";
  }
  std::string operator()(const std::string* value) const { return '"' + printable(*value) + '"'; }
  std::string operator()(ObjectText value) const { return printable(*value.text); }
  std::string operator()(const uint64_t* value) const { return std::to_string(*value); }
  template <class T>
  std::string operator()(const T* value) const {
    return setting_text(*value);
  }
};

std::string shown(const Field& field) { return std::visit(ShownValue{}, field.value); }

bool same_value(const Field& a, const Field& b) {
  const auto equals = [&](auto value) {
    using Value = decltype(value);
    if constexpr (std::is_same_v<Value, ObjectText>)
      return *value.text == *std::get<Value>(b.value).text;
    else
      return *value == *std::get<Value>(b.value);
  };
  return std::visit(equals, a.value);
}

void assign(const Field& to, const Field& from) {
  const auto set = [&](auto value) {
    using Value = decltype(value);
    if constexpr (std::is_same_v<Value, ObjectText>)
      *value.text = *std::get<Value>(from.value).text;
    else
      *value = *std::get<Value>(from.value);
  };
  std::visit(set, to.value);
}

// The value as a text without quotes, which conditions compare.
std::string plain(const Field& field) {
  const auto* text = std::get_if<std::string*>(&field.value);
  return text != nullptr ? **text : shown(field);
}

// NaN for what is no number.
double number_of(const Field& field) {
  const auto number = [](auto value) -> double {
    if constexpr (requires { static_cast<double>(*value); })
      return static_cast<double>(*value);
    else if constexpr (requires { value->count(); })
      return static_cast<double>(value->count());
    else
      return std::numeric_limits<double>::quiet_NaN();
  };
  return std::visit(number, field.value);
}

bool is_empty(const Field& field) {
  const std::string text = plain(field);
  return text.empty() || text == "{}" || text == "[]";
}

bool holds(const Condition& condition, const Fields& fields) {
  const Field* field = condition.path.empty() ? nullptr : find_field(fields, condition.path);
  if (field == nullptr) return true;
  if (condition.given) return !is_empty(*field);
  if (condition.holds != nullptr) return condition.holds(plain(*field));
  if (!condition.values.empty()) return std::ranges::count(condition.values, plain(*field)) > 0;
  const double value = number_of(*field);
  return condition.open_low ? value > condition.low : value >= condition.low;
}

bool is_met(const Need& need, const Fields& fields) {
  if (exists(need.when) && !holds(need.when, fields)) return true;
  return holds(need.condition, fields) || (exists(need.other) && holds(need.other, fields));
}

// "\"linear\", \"cosine\" or \"wsd\""; true and false without quotes.
std::string list_of(std::span<const std::string_view> values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string value(values[i]);
    text += i == 0 ? "" : i + 1 == values.size() ? " or " : ", ";
    text += value == "true" || value == "false" ? value : '"' + value + '"';
  }
  return text;
}

// What meets the condition, after "set ": "algorithm.value_coef above 0".
std::string setting_to(const Condition& condition) {
  const std::string path(condition.path);
  if (condition.given) return path;
  if (condition.holds != nullptr) return path + " to " + std::string(condition.words);
  if (!condition.values.empty()) return path + " to " + list_of(condition.values);
  return path + (condition.open_low ? " above " : " to at least ") + number_text(condition.low);
}

std::string current(const Condition& condition, const Fields& fields) {
  const Field* field = find_field(fields, condition.path);
  return std::string(condition.path) + (field == nullptr ? "" : ' ' + shown(*field));
}

std::string no_effect_text(const Field& setting, const Need& need, const Fields& fields) {
  return setting.path + ": " + shown(setting) + " has no effect with " + current(need.condition, fields) +
         std::string(need.because) + (exists(need.other) ? " and " + current(need.other, fields) : "");
}

[[noreturn]] void refuse(const Field& setting, const Field& fallback, const Need& need, const Fields& fields) {
  const std::string other = exists(need.other) ? " or " + setting_to(need.other) : "";
  const std::string instead =
      need.instead.empty() ? "set " + setting_to(need.condition) + other : std::string(need.instead);
  throw ConfigError(no_effect_text(setting, need, fields) + "; " + instead + ", or remove " + setting.path +
                    " (default " + shown(fallback) + ')');
}

// The condition in documentation: "with algorithm.value_loss \"huber\"", "in token runs".
std::string in_words(const Condition& condition) {
  const std::string path(condition.path), words(condition.words);
  if (path.empty()) return "with " + words;
  if (condition.holds != nullptr) return "with " + words + " as " + path;
  if (!words.empty()) return words;
  if (!condition.values.empty()) return "with " + path + ' ' + list_of(condition.values);
  if (condition.given) return "with a value of " + path;
  return "with " + path + (condition.open_low ? " above " : " of at least ") + number_text(condition.low);
}

std::string in_words(const Need& need) {
  return in_words(need.condition) + (exists(need.other) ? " or " + in_words(need.other) : "");
}

}  // namespace

const Need* unmet_need(const Fields& fields, const Field& setting) {
  const auto found = std::ranges::find_if(setting.needs, [&](const Need& need) { return !is_met(need, fields); });
  return found == setting.needs.end() ? nullptr : &*found;
}

void require_effects(const Fields& fields, const Fields& defaults) {
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field &setting = fields[i], &fallback = defaults[i];
    if (same_value(setting, fallback)) continue;
    const Need* unmet = unmet_need(fields, setting);
    if (unmet != nullptr && unmet->refused) refuse(setting, fallback, *unmet, fields);
  }
}

std::vector<std::string> ignored_settings(const Fields& fields, const Fields& defaults) {
  std::vector<std::string> ignored;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (same_value(fields[i], defaults[i])) continue;
    const Need* unmet = unmet_need(fields, fields[i]);
    if (unmet != nullptr && !unmet->refused) ignored.push_back(no_effect_text(fields[i], *unmet, fields));
  }
  return ignored;
}

void reset_unread(const Fields& fields, const Fields& defaults) {
  for (size_t i = 0; i < fields.size(); ++i) {
    const Need* unmet = unmet_need(fields, fields[i]);
    if (unmet == nullptr || !unmet->refused) continue;
    const Field* other = find_field(fields, unmet->condition.path);
    if (other != nullptr && other->setting.change == Change::never) assign(fields[i], defaults[i]);
  }
}

std::string needs_text(const std::vector<Need>& needs) {
  std::string always, sometimes, ignored;
  for (const Need& need : needs) {
    if (!need.refused)
      ignored += "; only " + in_words(need) + ", else ignored";
    else if (exists(need.when))
      sometimes += "; " + in_words(need.when) + " only " + in_words(need);
    else
      always += (always.empty() ? "; only " : ", ") + in_words(need);
  }
  const std::string text = always + sometimes + ignored;
  return text.empty() ? text : text.substr(2);
}

}  // namespace troupe
