#include "tasks/python_task.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/setting_json.h"
#include "tasks/dataset.h"
#include "tasks/verifier_process.h"

namespace troupe {

namespace {

// How many prompts the process is asked for.
uint64_t prompt_count(const std::string& params) {
  constexpr uint64_t kDefault = 1000;
  const Json object = parse_strict(params, "task.params");
  if (!object.is_object())
    throw ConfigError("task.params: " + shown_json(object) + " is not an object, expected {\"key\": value}");
  const auto found = object.find("prompts");
  if (found == object.end()) return kDefault;
  if (!found->is_number_unsigned() || found->get<uint64_t>() < 2 || found->get<uint64_t>() > kMostDatasetPrompts)
    throw ConfigError("task.params.prompts: " + shown_json(*found) + ", expected a whole number from 2 to " +
                      std::to_string(kMostDatasetPrompts));
  return found->get<uint64_t>();
}

// What the process says of its task: prompts as JSON objects, and whether it replies to answers.
struct PythonTask {
  std::vector<std::string> prompts;
  bool replies = false;
};

PythonTask ask_for_prompts(const TaskConfig& config, uint64_t count) {
  constexpr uint64_t kAtATime = 64;
  TaskConfig own = config;
  own.verifier = config.name;
  PythonTask task;
  std::vector<std::string>& prompts = task.prompts;
  uint64_t end = 0;  // of those that it draws
  try {
    VerifierProcess process(verifier_target(own));
    process.start();
    task.replies = process.replies();
    while (prompts.size() < count) {
      const uint64_t first = prompts.size();
      end = std::min(count, first + kAtATime);
      for (std::string& prompt : process.prompts(first, end)) prompts.push_back(std::move(prompt));
      if (prompts.size() < end) break;
    }
  } catch (const VerifierFailed& failed) {
    if (!failed.traceback.empty()) log_block(LogLevel::info, "task", failed.traceback);
    const std::string what = failed.what();  // an error of a prompt names it
    throw ConfigError("task.name: \"" + printable(config.name, 200) + "\": " + what +
                      (end == 0 || what.starts_with("prompt ")
                           ? ""
                           : "; it drew prompts " + std::to_string(prompts.size()) + " to " + std::to_string(end - 1)));
  } catch (const IoError& missing) {
    throw ConfigError("task.python: " + std::string(missing.what()) + "; task.name needs it");
  }
  return task;
}

}  // namespace

bool is_python_task(const TaskConfig& config) { return config.name.starts_with("py:"); }

std::unique_ptr<Task> make_python_task(const TaskConfig& config) {
  const DatasetKeys keys{.prompt = "prompt", .truth = "truth", .demonstration = "demonstration", .verified = true};
  const auto source = std::make_shared<const std::string>(config.name);
  std::vector<DatasetPrompt> prompts;
  std::unordered_set<std::string> texts;
  size_t held_out = 0;
  const PythonTask task = ask_for_prompts(config, prompt_count(config.params));
  for (size_t i = 0; i < task.prompts.size(); ++i) {
    Prompt prompt = dataset_prompt(task.prompts[i], keys, "task.name: " + *source + ": prompt " + std::to_string(i));
    if (!texts.insert(prompt.text).second) continue;
    held_out += split_of(prompt.text) == Split::held_out ? 1 : 0;
    prompts.push_back({std::move(prompt), source, i});
  }
  if (held_out == 0 || held_out == prompts.size())
    throw ConfigError("task.params.prompts: " + *source + " gives " + std::to_string(prompts.size() - held_out) +
                      " prompts for training and " + std::to_string(held_out) +
                      " held-out ones, expected at least 1 of each; use more prompts");
  return make_verified_task(std::move(prompts), task.replies);
}

}  // namespace troupe
