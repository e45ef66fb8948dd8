#include "actors/spec_fields.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "actors/run_context.h"
#include "envs/observation_called.h"
#include "runtime/base/rng.h"
#include "runtime/base/suggest.h"
#include "runtime/caf/system.h"

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

// A number that two processes share only if they draw the same prompts and make the same tokens of them.
uint64_t fingerprint_of(const TokenRun& run) {
  constexpr uint64_t kPrompts = 16;
  uint64_t result = 0;
  for (uint64_t i = 0; i < kPrompts; ++i) {
    Rng random(derive_key(0, "fingerprint", i));
    const Prompt prompt = run.task->draw(random, Split::train);
    result = derive_key(result, prompt.text + '\n' + prompt.truth);
    for (const int32_t token : run.encode(prompt)) result = mix(result, static_cast<uint64_t>(token));
  }
  return result;
}

SpecFields fields_of(const RunConfig& config, const TokenRun& run) {
  return {{"task", config.task.name},
          {"vocabulary of the tokenizer", std::to_string(run.tokenizer->vocabulary_size())},
          {"longest prompt in tokens", std::to_string(run.prompt_tokens)},
          {"longest answer in tokens", std::to_string(run.answer_tokens)},
          {"fingerprint of the prompts and their tokens", std::to_string(fingerprint_of(run))}};
}

const std::string* value_of(const SpecFields& fields, const std::string& name) {
  const auto it = std::ranges::find(fields, name, &SpecFields::value_type::first);
  return it == fields.end() ? nullptr : &it->second;
}

std::string shown(const std::string* value) { return value == nullptr ? "missing" : printable(*value, kValueBytes); }

}  // namespace

SpecFields spec_fields(const RunContext& context) {
  return context.tokens ? fields_of(context.config, *context.tokens) : fields_of(context.spec);
}

std::optional<std::string> spec_difference(const SpecFields& run, const SpecFields& worker) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string* of_run, const std::string* of_worker) {
    text += (text.empty() ? "" : "; ") + printable(name) + " is " + shown(of_worker) + ", in the run " + shown(of_run);
  };
  for (const auto& [name, value] : run)
    if (const std::string* other = value_of(worker, name); other == nullptr || *other != value)
      add(name, &value, other);
  constexpr size_t kMostFields = 1000;
  for (size_t i = 0; i < std::min(worker.size(), kMostFields) && text.size() < kMostErrorBytes / 2; ++i)
    if (value_of(run, worker[i].first) == nullptr) add(worker[i].first, nullptr, &worker[i].second);
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace troupe
