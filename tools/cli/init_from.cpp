#include "tools/cli/init_from.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "actors/config/config.h"
#include "models/model_meaning.h"
#include "models/weights/initial_weights.h"
#include "models/weights/model_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "runtime/run_folder/run_folder.h"
#include "tools/cli/chosen_checkpoint.h"
#include "tools/cli/config_lookup.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFlag = "--init-from";
constexpr size_t kShownPath = 200;
constexpr const char* kModelFile = "/model.safetensors";

// Keys of the metadata.
constexpr const char* kGiven = "init_from";  // as it was on the command line
constexpr const char* kPath = "path";        // the same as an absolute path
constexpr const char* kFile = "file";        // that holds the tensors
constexpr const char* kChecksum = "xxh3";    // of names and bytes

// The path without slashes at its end.
std::string trimmed(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

// As metadata can hold it: UTF-8.
std::string text_of_path(const std::string& path) { return printable(path, std::string::npos); }

std::string absolute(const std::string& path) {
  std::error_code failed;
  return text_of_path(trimmed(fs::absolute(path, failed).string()));
}

std::string value_of(const InitialWeights& weights, const char* key) {
  const auto found = weights.metadata.find(key);
  return found == weights.metadata.end() ? "" : found->second;
}

std::string checksum_text(const std::map<std::string, Array>& tensors) {
  Checksum checksum;
  for (const auto& [name, array] : tensors) {
    checksum.update(name.data(), name.size() + 1);  // with its final 0
    checksum.update(array.data(), array.bytes());
  }
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(checksum.value()));
  return text;
}

struct Found {
  std::map<std::string, Array> tensors;
  std::string file;                 // that holds them
  std::optional<RunConfig> config;  // of the run that trained them, where that is known
};

Found of_run(const std::string& run, const std::string& which) {
  const RunConfig config = load_config(run + "/config.json", ConfigSource::run);
  ChosenCheckpoint chosen = load_checkpoint(run, config, which);
  return {std::move(chosen.checkpoint.model), chosen.path + kModelFile, config};
}

// The config in the folder of a run, if there is one.
std::optional<RunConfig> config_in(const fs::path& run) {
  const std::string path = run / "config.json";
  std::error_code failed;
  if (!fs::exists(path, failed)) return std::nullopt;
  return load_config(path, ConfigSource::run);
}

// The settings in a checkpoint, or, as older programs wrote none, those of the run whose folder it is in.
std::optional<RunConfig> config_of_checkpoint(const fs::path& checkpoint) {
  const std::string settings = read_checkpoint_settings(posix_disk(), checkpoint);
  if (!settings.empty()) return parse_config(settings, checkpoint / "state.json", ConfigSource::run);
  const fs::path folder = fs::absolute(checkpoint).parent_path();
  return folder.filename() == "checkpoints" ? config_in(folder.parent_path()) : std::nullopt;
}

// Of a file that a run has written, where that run wrote it or in a copy of its folder. Nothing is known of others.
std::optional<RunConfig> config_of_file(const fs::path& file, const Safetensors& contents) {
  const fs::path folder = fs::absolute(file).parent_path();
  if (contents.metadata.contains(kGiven)) return config_in(folder);
  if (file.filename() != "model.safetensors") return std::nullopt;
  try {
    return config_of_checkpoint(folder);
  } catch (const IoError&) {
    return std::nullopt;  // it is not in the folder of a checkpoint
  }
}

Found find_weights(const std::string& path) {
  std::error_code failed;
  if (fs::exists(fs::path(path) / "state.json", failed))
    return {read_checkpoint_model(posix_disk(), path), path + kModelFile, config_of_checkpoint(path)};
  if (const auto checkpoint = checkpoint_path(path)) return of_run(checkpoint->run, checkpoint->which);
  const bool is_json = fs::path(path).extension() == ".json";  // the config.json of a run, for one
  if (fs::is_directory(path, failed) || !fs::exists(path, failed) || is_json) {
    require_run_folder(path);
    return of_run(path, "newest");
  }
  Safetensors contents = read_safetensors(posix_disk(), path);
  const std::optional<RunConfig> config = config_of_file(path, contents);
  return {std::move(contents.tensors), path, config};
}

// Nothing where this program does not have the environment.
std::optional<EnvSpec> environment_if_known(const RunConfig& config) {
  try {
    return environment_of(config);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

void check_fit(const Found& found, const ModelConfig& model, const EnvSpec& env) {
  try {
    check_initial_weights(model_signature(model, env), found.tensors);
    if (!found.config) return;
    if (const auto of_source = environment_if_known(*found.config)) require_same_observations(*of_source, env);
    require_same_meaning(found.config->model, model, env);
  } catch (const ConfigError& misfit) {
    throw ConfigError(printable(found.file, kShownPath) + ": " + misfit.what());
  }
}

// Of a run that was killed before its first update: its settings may have changed since it was given the weights.
void check_kept(const InitialWeights& kept, const std::string& run, const ModelConfig& model, const EnvSpec& env) {
  const Found found{kept.tensors, run + "/init.safetensors", config_in(run)};
  try {
    check_fit(found, model, env);
  } catch (const ConfigError& misfit) {
    throw ConfigError(std::string(misfit.what()) +
                      "; use another run folder, or remove this file to begin with new weights");
  }
}

bool began_from(const InitialWeights& record, const std::string& init_from) {
  return value_of(record, kGiven) == text_of_path(init_from) || value_of(record, kPath) == absolute(init_from);
}

std::vector<uint64_t> checkpoints_of(const std::string& run) {
  try {
    return CheckpointStore(posix_disk(), run + "/checkpoints").list();
  } catch (const IoError& refused) {
    throw ConfigError(refused.what());
  }
}

[[noreturn]] void refuse_other_source(const std::string& given, const std::string& run,
                                      const std::optional<InitialWeights>& record) {
  throw ConfigError(
      std::string(kFlag) + ": " + printable(given, kShownPath) + ": the run in " + run + " was " +
      (record ? "started with --init-from " + value_of(*record, kGiven) : std::string("not started with --init-from")) +
      "; leave --init-from out to resume it, or begin a new run with --run DIR");
}

}  // namespace

std::optional<InitialWeights> read_init_from(const std::string& init_from, const std::string& run,
                                             const ModelConfig& model, const EnvSpec& env) {
  const std::vector<uint64_t> saved = checkpoints_of(run);
  const bool trained = !saved.empty() && saved.back() > 0;
  if (init_from.empty() && trained) return std::nullopt;
  const std::optional<InitialWeights> record = read_initial_weights(posix_disk(), run);
  if (record && (init_from.empty() || began_from(*record, init_from))) {
    if (!trained) check_kept(*record, run, model, env);
    return std::nullopt;
  }
  if (init_from.empty()) return std::nullopt;
  if (!saved.empty()) refuse_other_source(init_from, run, record);
  try {
    Found found = find_weights(trimmed(init_from));
    check_fit(found, model, env);
    const std::string checksum = checksum_text(found.tensors);
    return InitialWeights{std::move(found.tensors),
                          {{"format", "pt"},
                           {kGiven, text_of_path(init_from)},
                           {kPath, absolute(init_from)},
                           {kFile, text_of_path(found.file)},
                           {kChecksum, checksum}}};
  } catch (const std::runtime_error& refused) {
    throw ConfigError(std::string(kFlag) + ": " + refused.what());
  }
}

void refuse_to_resume(const InitialWeights& given, const std::string& run) {
  refuse_other_source(value_of(given, kGiven), run, read_initial_weights(posix_disk(), run));
}

std::string init_from_of_settings(const std::string& config) {
  const fs::path file(config);
  if (file.filename() != "config.json") return "";
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  try {
    const std::optional<InitialWeights> record = read_initial_weights(posix_disk(), folder);
    return record ? value_of(*record, kGiven) : "";
  } catch (const ConfigError&) {  // damaged, which matters to that run alone
    return "";
  }
}

std::string initial_weights_text(const InitialWeights& weights) {
  return "the weights of " + value_of(weights, kFile) + " (checksum " + value_of(weights, kChecksum) + ")";
}

}  // namespace troupe
