#include "tools/cli/made_of.h"

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "actors/spec_fields.h"
#include "models/lm/lm_model.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/weights/weights.h"

namespace troupe {
namespace {

std::string path_in(const std::string& folder) { return folder + "/made_of.json"; }

SpecFields read_fields(const std::string& path) {
  const Json document = parse_stored(posix_disk().read(path), path);
  if (!document.is_object()) throw IoError(path, "is not an object, expected what train has written");
  SpecFields fields;
  for (const auto& [name, value] : document.items()) {
    if (!value.is_string()) throw IoError(path, printable(name) + " is not a string, expected what train has written");
    fields.emplace_back(name, value.get<std::string>());
  }
  return fields;
}

}  // namespace

SpecFields made_of_training(const RunContext& context, const Learner& learner) {
  SpecFields fields = made_of(context);
  if (!context.language_model || context.language_model->frozen || context.config.model.path.empty()) return fields;
  const WeightsPtr first = learner.snapshot({});
  fields.emplace_back(kModelBase, format_hash(checksum_of(first->flat.data(), first->flat.bytes())));
  return fields;
}

std::optional<SpecFields> read_made_of(const std::string& folder) try {
  const std::string path = path_in(folder);
  return posix_disk().exists(path) ? std::optional(read_fields(path)) : std::nullopt;
} catch (const IoError& refused) {
  throw ConfigError(refused.what());
}

void require_made_of(const std::string& folder, const SpecFields& now) {
  const std::optional<SpecFields> before = read_made_of(folder);
  std::string changes;
  if (before)
    for (const std::string& change : made_of_changes(*before, now)) changes += (changes.empty() ? "" : "; ") + change;
  if (changes.empty()) return;
  throw ConfigError(printable(folder, 200) + ": the run was made of something else (made_of.json): " + changes +
                    "; restore what has changed, or begin a new run with --run DIR");
}

void require_comparable_files(const std::string& folder, const std::vector<SettingChange>& changes) try {
  constexpr std::string_view kNone = "\"\"";
  const bool comparable = posix_disk().exists(path_in(folder));
  for (const SettingChange& change : changes) {
    // Without one, model.critic_path and tokenizer.path stand for model.path.
    const bool other_run = (change.path == "model.path" || change.path == "reward_model.path") &&
                           (change.before == kNone || change.now == kNone);
    if (is_file_setting(change.path) && (other_run || !comparable))
      throw ConfigError(printable(folder, 200) + ": cannot resume: " + change.sentence() +
                        (other_run ? "" : ", and the run does not say what the file contained (made_of.json)") +
                        "; give it the old value, or begin a new run with --run DIR");
  }
} catch (const IoError& refused) {
  throw ConfigError(refused.what());
}

void keep_made_of(const std::string& folder, const SpecFields& now) try {
  Json document = Json::object();
  for (const auto& [name, value] : now) document[name] = value;
  const std::string text = document.dump(2, ' ', false, Json::error_handler_t::replace);
  posix_disk().write_atomic(path_in(folder), text + '\n');
} catch (const IoError& refused) {
  throw ConfigError(refused.what());
}

}  // namespace troupe
