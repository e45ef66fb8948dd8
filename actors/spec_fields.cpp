#include "actors/spec_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "actors/run_context.h"
#include "envs/observation_called.h"
#include "models/lm/lm_model.h"
#include "models/lm/reward_model.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/caf/system.h"
#include "text/char_tokenizer.h"
#include "text/utf8.h"

namespace troupe {

namespace {

constexpr size_t kValueBytes = 200;  // of a value in a message

std::string text_of(float value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}
std::string text_of(int32_t value) { return std::to_string(value); }

template <class T>
std::string list_of(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "[" : ", ") + text_of(value);
  return text.empty() ? "[]" : text + ']';
}

std::string kind_of(ActionKind kind) {
  if (kind == ActionKind::continuous) return "continuous";
  return kind == ActionKind::discrete ? "discrete" : "several discrete ones";
}

SpecFields fields_of(const EnvSpec& spec) {
  SpecFields fields = {{"environment", spec.id}};
  for (const ArraySpec& array : spec.observations)
    fields.emplace_back(observation_called(array.name), std::string(name_of(array.dtype)) + array.shape.text());
  const ActionSpec& action = spec.action;
  fields.emplace_back("kind of action", kind_of(action.kind));
  if (action.kind == ActionKind::continuous) {
    fields.emplace_back("lower bounds of actions", list_of(action.low));
    fields.emplace_back("upper bounds of actions", list_of(action.high));
  } else {
    fields.emplace_back("number of choices of each action", list_of(action.bins));
  }
  fields.emplace_back("steps of a chunk", std::to_string(action.chunk));
  fields.emplace_back("action mask", action.masked ? "yes" : "no");
  fields.emplace_back("limit of steps of an episode", std::to_string(spec.max_episode_steps));
  std::string tasks;
  for (const std::string& task : spec.tasks) tasks += (tasks.empty() ? "" : ", ") + task;
  fields.emplace_back("tasks", tasks);
  fields.emplace_back("reports success", spec.reports_success ? "yes" : "no");
  return fields;
}

std::string token_text(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? tokenizer.decode(std::vector<int32_t>{*id}) : "none";
}

SpecFields fields_of(const RunConfig& config, const TokenRun& run) {
  const Tokenizer& tokenizer = *run.tokenizer;
  SpecFields fields = {{"task", config.task.name}, {kTaskData, format_hash(run.data_hash)}};
  std::ranges::move(tokenizer_fields(tokenizer), std::back_inserter(fields));
  fields.emplace_back("tokenizer.bos", token_text(tokenizer, tokenizer.bos()));
  fields.emplace_back("tokenizer.eos", token_text(tokenizer, tokenizer.eos()));
  fields.emplace_back("tokenizer.pad", token_text(tokenizer, tokenizer.pad()));
  return fields;
}

// The frozen models, as far as this process reads them.
void add_models(const RunContext& context, SpecFields& fields) {
  if (context.language_model && context.language_model->frozen)
    fields.emplace_back(kModelBase, context.language_model->frozen->hash);
  if (context.reward_model) fields.emplace_back(kRewardModel, context.reward_model->hash());
}

// The character at byte `at` of UTF-8, for a message.
std::string character_at(const std::string& text, size_t at) {
  if (at >= text.size()) return "its end";
  const auto character = utf8_character(text, at);
  if (!character) return "no character";
  return '"' + printable(text.substr(at, character->bytes)) + "\" (" + code_point_text(character->code) + ')';
}

// Where two alphabets differ first: "; character 3 is "b" (U+0062) in the first and "c" (U+0063) in the second".
std::string first_difference(const std::string& first, const std::string& second) {
  size_t at = 0, place = 0;
  while (at < std::min(first.size(), second.size())) {
    const auto a = utf8_character(first, at), b = utf8_character(second, at);
    if (!a || !b || a->code != b->code) break;
    at += a->bytes;
    ++place;
  }
  return "; the first difference is character " + std::to_string(place) + ", " + character_at(first, at) + " and " +
         character_at(second, at);
}

const std::string* value_of(const SpecFields& fields, const std::string& name) {
  const auto it = std::ranges::find(fields, name, &SpecFields::value_type::first);
  return it == fields.end() ? nullptr : &it->second;
}

// Fields that say what files contain.
const std::array<std::string, 4> kOfFiles = {kTaskData, kTokenizerHash, kModelBase, kRewardModel};

// Not every process reads these.
bool may_lack(const std::string& name) { return name == kModelBase || name == kRewardModel; }

// What the value of a field is, where its name does not say it.
std::string meaning_of(const std::string& name) {
  if (name == kTaskData) return " (the hash of the prompts)";
  if (name == kModelBase) return " (the hash of the weights in model.path)";
  if (name == kRewardModel) return " (the hash of the weights in reward_model.path)";
  return "";
}

std::string shown(const std::string* value) { return value == nullptr ? "missing" : printable(*value, kValueBytes); }

// The base of a model with adapters, whose hash is in the name of a tensor.
void add_base(const RunContext& context, SpecFields& fields) {
  constexpr std::string_view kFrozen = "frozen.";
  if (context.signature == nullptr) return;
  for (const TensorSpec& tensor : context.signature->tensors)
    if (tensor.name.starts_with(kFrozen)) fields.emplace_back(kModelBase, tensor.name.substr(kFrozen.size()));
}

}  // namespace

SpecFields tokenizer_fields(const Tokenizer& tokenizer) {
  const auto* chars = dynamic_cast<const CharTokenizer*>(&tokenizer);
  SpecFields fields = {{kTokenizerKind, chars == nullptr ? "bpe" : "char"}};
  if (chars != nullptr) fields.emplace_back(kAlphabet, chars->alphabet());
  fields.emplace_back(kTokenizerHash, format_hash(tokenizer.hash()));
  return fields;
}

SpecFields made_of(const RunContext& context) {
  if (!context.tokens) {
    SpecFields fields = fields_of(context.spec);
    add_base(context, fields);
    return fields;
  }
  SpecFields fields = fields_of(context.config, *context.tokens);
  add_models(context, fields);
  return fields;
}

SpecFields spec_fields(const RunContext& context) {
  if (!context.tokens) return fields_of(context.spec);
  const TokenRun& run = *context.tokens;
  SpecFields fields = fields_of(context.config, run);
  fields.emplace_back("longest prompt in tokens", std::to_string(run.prompt_tokens));
  fields.emplace_back("longest answer in tokens", std::to_string(run.answer_tokens));
  if (run.turns > 1) fields.emplace_back("longest conversation in tokens", std::to_string(run.conversation_tokens()));
  add_models(context, fields);
  return fields;
}

std::optional<std::string> spec_difference(const SpecFields& run, const SpecFields& worker) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string* of_run, const std::string* of_worker) {
    text += (text.empty() ? "" : "; ") + printable(name) + meaning_of(name) + " is " + shown(of_worker) +
            ", in the run " + shown(of_run);
    if (name == kAlphabet && of_run != nullptr && of_worker != nullptr) text += first_difference(*of_worker, *of_run);
  };
  for (const auto& [name, value] : run)
    if (const std::string* other = value_of(worker, name); other == nullptr ? !may_lack(name) : *other != value)
      add(name, &value, other);
  constexpr size_t kMostFields = 1000;
  for (size_t i = 0; i < std::min(worker.size(), kMostFields) && text.size() < kMostErrorBytes / 2; ++i)
    if (value_of(run, worker[i].first) == nullptr) add(worker[i].first, nullptr, &worker[i].second);
  if (text.empty()) return std::nullopt;
  const auto differs = [&](const std::string& name) {
    const std::string *of_run = value_of(run, name), *of_worker = value_of(worker, name);
    return of_run != nullptr && of_worker != nullptr && *of_run != *of_worker;
  };
  const bool other_files = std::ranges::any_of(kOfFiles, differs);
  return text + (other_files ? "; give this process the files of the run" : "");
}

std::vector<std::string> made_of_changes(const SpecFields& before, const SpecFields& now) {
  std::vector<std::string> changes;
  const auto add = [&](const std::string& name, const std::string* was, const std::string* is) {
    changes.push_back(printable(name) + meaning_of(name) + " was " + shown(was) + " and is now " + shown(is));
    if (name == kAlphabet && was != nullptr && is != nullptr) changes.back() += first_difference(*was, *is);
  };
  for (const auto& [name, value] : before)
    if (const std::string* other = value_of(now, name); other == nullptr ? !may_lack(name) : *other != value)
      add(name, &value, other);
  for (const auto& [name, value] : now)
    if (value_of(before, name) == nullptr) add(name, nullptr, &value);
  return changes;
}

}  // namespace troupe
