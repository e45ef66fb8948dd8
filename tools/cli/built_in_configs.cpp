#include "tools/cli/built_in_configs.h"

#include <algorithm>
#include <map>

#include "actors/config/config.h"
#include "envs/make/make_env.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "tools/cli/launch.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

// "a", "a and b", "a, b and c".
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

// The built-in configs that train the environment, the shortest names first.
std::vector<std::string> configs_of(const std::string& id) {
  std::vector<std::string> found;
  for (const std::string& name : built_in_configs()) {
    try {
      const RunConfig config = load_config(config_folder() / (name + ".json"));
      if (!is_token_run(config) && config.env.id == id) found.push_back(name);
    } catch (const ConfigError&) {
      continue;  // only a suggestion is lost
    }
  }
  std::ranges::stable_sort(found, {}, &std::string::size);
  return found;
}

}  // namespace

fs::path config_folder() {
  std::error_code failed;
  const fs::path program = program_folder(), build = fs::canonical(TROUPE_BUILD_DIR, failed);
  const fs::path installed = program.parent_path() / "share" / "troupe" / "configs";
  const bool built_here = !build.empty() && is_within(program, build);
  return built_here && !fs::is_directory(installed, failed) ? fs::path(TROUPE_SOURCE_DIR) / "configs" : installed;
}

std::vector<std::string> built_in_configs() {
  std::vector<std::string> names;
  const fs::path folder = config_folder();
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().extension() == ".json")
      names.push_back(at->path().lexically_relative(folder).replace_extension().string());
  std::ranges::sort(names);
  return names;
}

std::string built_in_configs_text() {
  constexpr size_t kMost = 8;  // names of one folder
  std::map<std::string, std::vector<std::string>> folders;
  for (const std::string& name : built_in_configs()) folders[fs::path(name).parent_path().string()].push_back(name);
  std::string text;
  for (const auto& [folder, names] : folders) {
    if (folder.empty() || names.size() <= kMost)
      for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    else
      text += (text.empty() ? "" : ", ") + std::to_string(names.size()) + " in " + folder + '/';
  }
  return text;
}

std::string nearest_built_in_config(const std::string& name) {
  const std::vector<std::string> names = built_in_configs();
  if (const std::string near = closest(name, names); !near.empty()) return near;
  std::vector<std::string> last_parts;
  for (const std::string& each : names) last_parts.push_back(fs::path(each).filename().string());
  const auto found = std::ranges::find(last_parts, closest(fs::path(name).filename().string(), last_parts));
  return found == last_parts.end() ? "" : names[static_cast<size_t>(found - last_parts.begin())];
}

std::string nearest_config_file(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (is_config_file_name(at->path().string())) names.push_back(at->path().stem().string());
  std::ranges::sort(names);
  const std::string near = closest(path.stem().string(), names);
  for (const char* ending : {".json", ".yaml", ".yml"})
    if (const fs::path file = path.parent_path() / (near + ending); !near.empty() && fs::is_regular_file(file, failed))
      return file.string();
  return "";
}

std::string advice_for_environment(const std::string& name) {
  constexpr size_t kShown = 3;
  const std::string id = environment_named(name);
  if (id.empty()) return "";
  std::vector<std::string> configs = configs_of(id);
  const std::string more = configs.size() > kShown ? " (and " + std::to_string(configs.size() - kShown) + " more)" : "";
  configs.resize(std::min(configs.size(), kShown));
  const std::string shown = printable(id, 200), without_config = "`troupe train --env " + shown + '`';
  return shown + " is an environment, " +
         (configs.empty()
              ? "which " + without_config + " trains"
              : "which the built-in config" + std::string(configs.size() == 1 ? " " : "s ") + list_of(configs) + more +
                    (configs.size() == 1 ? " trains" : " train") + "; without a config file: " + without_config);
}

}  // namespace troupe
