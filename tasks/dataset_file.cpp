#include "tasks/dataset_file.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "tasks/answer_match.h"

namespace troupe {

namespace {

constexpr std::string_view kSource = "data_source";  // as in verl

std::string read_file(const std::string& path, const std::string& setting) {
  try {
    return posix_disk().read(path, kMostDatasetBytes);
  } catch (const IoError& error) {
    throw ConfigError(setting + ": " + error.what());
  }
}

// `place` is "FILE:LINE". The parser sees one line, so its errors begin with "FILE:LINE:1:COLUMN".
Json parse_line(std::string_view line, const std::string& place) {
  try {
    return parse_strict(line, place);
  } catch (const ConfigError& error) {
    std::string what = error.what();
    if (what.starts_with(place + ":1:")) what.erase(place.size(), 2);
    throw ConfigError(what);
  }
}

// The value of a key or of a path of keys; nullptr if there is none, or null.
const Json* find_value(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  if (found != object.end()) return found->is_null() ? nullptr : &*found;
  const size_t point = key.find('.');
  if (point == std::string_view::npos) return nullptr;
  const auto outer = object.find(key.substr(0, point));
  return outer == object.end() ? nullptr : find_value(*outer, key.substr(point + 1));
}

const Json* find_truth(const Json& object, const std::string& key) {
  const Json* truth = find_value(object, key);
  return truth == nullptr && key == "truth" ? find_value(object, "reward_model.ground_truth") : truth;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

std::string text_of(const Json* value, const std::string& key, const std::string& place, bool number) {
  if (value == nullptr) throw ConfigError(place + ": has no \"" + printable(key) + "\", which is required");
  if (number && value->is_number_integer()) return value->dump();
  if (!value->is_string())
    throw ConfigError(place + ": \"" + printable(key) + "\" is " + printable(value->dump()) + ", expected a text" +
                      (number ? " or a whole number" : ""));
  std::string text = value->get<std::string>();
  if (is_blank(text)) throw ConfigError(place + ": \"" + printable(key) + "\" is empty");
  return text;
}

// A message {"role", "content"}; `what` names it. Other members are refused unless they are null.
std::pair<std::string, std::string> message_of(const Json& value, const std::string& what) {
  constexpr std::array kRoles = {"system", "user", "assistant", "tool"};
  const Json *role = find_value(value, "role"), *content = find_value(value, "content");
  if (role == nullptr || content == nullptr || !role->is_string() || !content->is_string())
    throw ConfigError(what + " is " + printable(value.dump()) + ", expected {\"role\": TEXT, \"content\": TEXT}");
  if (std::ranges::find(kRoles, role->get_ref<const std::string&>()) == kRoles.end())
    throw ConfigError(what + ".role is " + printable(role->dump()) +
                      ", expected one of: system, user, assistant, tool");
  if (is_blank(content->get_ref<const std::string&>())) throw ConfigError(what + ".content is empty");
  for (const auto& [key, other] : value.items())
    if (key != "role" && key != "content" && !other.is_null())
      throw ConfigError(what + '.' + printable(key) + " is not supported, expected role and content alone");
  return {role->get<std::string>(), content->get<std::string>()};
}

// A text, or a list of messages. A single message of the user is a text.
void read_prompt(const Json* value, const std::string& key, const std::string& place, Prompt& prompt) {
  const std::string what = place + ": \"" + printable(key) + '"';
  if (value == nullptr || !value->is_array()) {
    if (value != nullptr && !value->is_string())
      throw ConfigError(what + " is " + printable(value->dump()) + ", expected a text or a list of messages");
    prompt.text = text_of(value, key, place, false);
    return;
  }
  Json list = Json::array();
  for (size_t i = 0; i < value->size(); ++i) {
    const auto& [role, content] =
        prompt.messages.emplace_back(message_of((*value)[i], what + '[' + std::to_string(i) + ']'));
    list.push_back({{"role", role}, {"content", content}});
  }
  const std::string last = list.empty() ? "" : prompt.messages.back().first;
  if (std::ranges::find(kMessageRoles, last) == kMessageRoles.end())
    throw ConfigError(what + (list.empty() ? " has no messages" : " ends with a message of the assistant or system") +
                      ", expected a message of the user or a tool at its end");
  if (list.size() == 1 && last == "user") {
    prompt.text = prompt.messages.front().second;
    prompt.messages.clear();
  } else {
    prompt.text = list.dump();
  }
}

// A text as it is, everything else as JSON.
std::string any_text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

Prompt dataset_prompt(std::string_view line, const DatasetKeys& keys, const std::string& place) {
  if (line.size() > kLongestDatasetLine)
    throw ConfigError(place + ": has " + std::to_string(line.size()) + " bytes, expected at most " +
                      std::to_string(kLongestDatasetLine));
  const Json object = parse_line(line, place);
  if (!object.is_object())
    throw ConfigError(place + ": is " + printable(object.dump()) + ", expected an object {\"" + printable(keys.prompt) +
                      "\": ...," + (keys.verified ? " ...}" : " \"" + printable(keys.truth) + "\": ...}"));
  Prompt prompt;
  read_prompt(find_value(object, keys.prompt), keys.prompt, place, prompt);
  const Json *truth = find_truth(object, keys.truth), *demonstration = find_value(object, keys.demonstration);
  if (keys.verified) {
    if (truth != nullptr) prompt.truth = any_text_of(*truth);
    prompt.columns = trimmed(line);
  } else {
    prompt.truth = text_of(truth, keys.truth, place, true);
    if (demonstration == nullptr) prompt.demonstration = prompt.truth;
  }
  if (const Json* source = find_value(object, kSource); source != nullptr && source->is_string())
    prompt.source = source->get<std::string>();
  if (demonstration != nullptr) prompt.demonstration = text_of(demonstration, keys.demonstration, place, true);
  return prompt;
}

std::vector<DatasetPrompt> read_dataset(const std::string& path, const DatasetKeys& keys, const std::string& setting) {
  const std::string text = read_file(path, setting);
  const auto file = std::make_shared<const std::string>(path);
  std::vector<DatasetPrompt> prompts;
  std::unordered_map<std::string, size_t> line_of;
  std::string_view rest = text;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);  // a byte order mark
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = path + ':' + std::to_string(number);
    Prompt prompt = dataset_prompt(line, keys, place);
    const auto [first, added] = line_of.emplace(prompt.text, number);
    if (!added)
      throw ConfigError(place + ": the prompt \"" + printable(prompt.text) + "\" is also in line " +
                        std::to_string(first->second) + ", expected each prompt once");
    if (prompts.size() == kMostDatasetPrompts)
      throw ConfigError(place + ": more than " + std::to_string(kMostDatasetPrompts) + " prompts");
    prompts.push_back({std::move(prompt), file, number});
  }
  if (prompts.empty()) throw ConfigError(setting + ": " + path + " has no prompts");
  return prompts;
}

}  // namespace troupe
