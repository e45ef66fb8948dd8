#include "tools/cli/train_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/train_command.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSetShards = "trainer.shards=";

bool sets_shards(const std::string& text) { return text.starts_with(kSetShards); }

// Their number, if one is set.
std::optional<int64_t> shards_of(const std::vector<std::string>& overrides) {
  std::optional<int64_t> result;
  for (const std::string& text : overrides) {
    if (!sets_shards(text)) continue;
    int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + kSetShards.size(), end, number);
    result.reset();
    if (read.ec == std::errc() && read.ptr == end) result = number;
  }
  return result;
}

}  // namespace

std::string run_folder_of(const TrainOptions& options, const RunConfig& config) {
  if (!options.run_dir.empty()) return options.run_dir;
  std::string by_name = "runs/" + (options.about.name.empty() ? config.name : options.about.name);
  if (options.config.empty()) return by_name;
  const fs::path file = find_config(options.config);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const bool of_a_run = file.filename() == "config.json" && is_run_folder(folder);
  return of_a_run ? folder.string() : by_name;
}

RunConfig config_to_train(const TrainOptions& options) {
  const auto load = [&](const std::vector<std::string>& overrides) {
    return load_run_config(options.config, overrides, options.seed, options.env);
  };
  const std::optional<int64_t> set_shards = shards_of(options.overrides);
  std::vector<std::string> overrides = options.overrides;
  // They need workers, which --ranks gives them below.
  if (options.ranks && set_shards) std::erase_if(overrides, sets_shards);
  RunConfig config = load(overrides);
  const std::string folder = run_folder_of(options, config);
  int64_t shards = set_shards.value_or(config.trainer.shards);
  if (shards == 1 && std::ranges::none_of(options.overrides, sets_shards))
    shards = is_run_folder(folder) ? load_config(folder + "/config.json", ConfigSource::run).trainer.shards
                                   : options.ranks.value_or(1);
  if (!options.ranks && shards == config.trainer.shards) return config;
  // Without what --ranks sets the config is right, so it is named, and not --set.
  const auto load_with_ranks = [&] {
    try {
      return load(overrides);
    } catch (const ConfigError& error) {
      std::string text = error.what();
      constexpr std::string_view kSet = "--set: ";
      if (const size_t at = text.find(kSet); options.ranks && at != std::string::npos)
        text.replace(at, kSet.size(), "--ranks: ");
      throw ConfigError(text);
    }
  };
  const auto set = [&](const std::string& path, int64_t value) {
    overrides.push_back(path + '=' + std::to_string(value));
  };
  set("trainer.shards", shards);
  if (options.ranks) set("trainer.ranks", *options.ranks);
  if (config.workers.count > 0) set("workers.count", std::max(config.workers.count, shards));
  return load_with_ranks();
}

void require_room_for_folder(const TrainOptions& options, const RunConfig& config) {
  const std::string path = run_folder_of(options, config);
  const std::string where = (options.run_dir.empty() ? "" : "--run: ") + printable(path, 200);
  std::error_code failed;
  for (fs::path at = path; !at.empty(); at = at.parent_path()) {
    if (fs::is_directory(at, failed)) return;
    if (fs::exists(at, failed))
      throw ConfigError(where + ": " +
                        (at == path ? "is not a folder, expected a new one, an empty one or that of a run"
                                    : printable(at.string(), 200) + " is not a folder"));
    if (at == at.parent_path()) return;
  }
}

}  // namespace troupe
