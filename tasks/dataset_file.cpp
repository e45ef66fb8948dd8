#include "tasks/dataset_file.h"

#include <unordered_map>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

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

std::string text_of(const Json& object, const std::string& key, const std::string& place, bool number) {
  const auto found = object.find(key);
  if (found == object.end()) throw ConfigError(place + ": has no \"" + printable(key) + "\", which is required");
  if (number && found->is_number_integer()) return found->dump();
  if (!found->is_string())
    throw ConfigError(place + ": \"" + printable(key) + "\" is " + printable(found->dump()) + ", expected a text" +
                      (number ? " or a whole number" : ""));
  std::string text = found->get<std::string>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw ConfigError(place + ": \"" + printable(key) + "\" is empty");
  return text;
}

Prompt prompt_of(std::string_view line, const DatasetKeys& keys, const std::string& place) {
  if (line.size() > kLongestDatasetLine)
    throw ConfigError(place + ": has " + std::to_string(line.size()) + " bytes, expected at most " +
                      std::to_string(kLongestDatasetLine));
  const Json object = parse_line(line, place);
  if (!object.is_object())
    throw ConfigError(place + ": is " + printable(object.dump()) + ", expected an object {\"" + printable(keys.prompt) +
                      "\": ..., \"" + printable(keys.truth) + "\": ...}");
  Prompt prompt{text_of(object, keys.prompt, place, false), text_of(object, keys.truth, place, true), ""};
  prompt.demonstration =
      object.contains(keys.demonstration) ? text_of(object, keys.demonstration, place, true) : prompt.truth;
  return prompt;
}

}  // namespace

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
    Prompt prompt = prompt_of(line, keys, place);
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
