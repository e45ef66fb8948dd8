#include "tools/cli/init_from.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>

#include "actors/config/config.h"
#include "models/weights/initial_weights.h"
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

// Tensors, and the file that holds them.
using Found = std::pair<std::map<std::string, Array>, std::string>;

Found of_run(const std::string& run, const std::string& which) {
  ChosenCheckpoint chosen = load_checkpoint(run, load_config(run + "/config.json", ConfigSource::run), which);
  return {std::move(chosen.checkpoint.model), chosen.path + "/model.safetensors"};
}

// RUN of RUN/checkpoints/best.
std::string run_of_best(const fs::path& path) {
  const bool best = path.filename() == "best" && path.parent_path().filename() == "checkpoints";
  return best ? path.parent_path().parent_path().string() : "";
}

Found find_weights(const std::string& path) {
  std::error_code failed;
  if (const std::string run = run_of_best(path); !run.empty()) {
    require_run_folder(run);
    return of_run(run, "best");
  }
  if (fs::exists(fs::path(path) / "state.json", failed))
    return {read_checkpoint_model(posix_disk(), path), path + "/model.safetensors"};
  if (fs::is_directory(path, failed) || !fs::exists(path, failed)) {
    require_run_folder(path);
    return of_run(path, "newest");
  }
  return {read_safetensors(posix_disk(), path).tensors, path};
}

void check_fit(const Signature& model, const std::map<std::string, Array>& tensors, const std::string& file) {
  try {
    check_initial_weights(model, tensors);
  } catch (const ConfigError& misfit) {
    throw ConfigError(printable(file, kShownPath) + ": " + misfit.what());
  }
}

bool began_from(const InitialWeights& record, const std::string& init_from) {
  return value_of(record, kGiven) == text_of_path(init_from) || value_of(record, kPath) == absolute(init_from);
}

[[noreturn]] void refuse_other_source(const std::string& given, const std::string& run,
                                      const std::optional<InitialWeights>& record) {
  throw ConfigError(std::string(kFlag) + ": " + printable(given, kShownPath) + ": the run in " + run + " began from " +
                    (record ? value_of(*record, kGiven) : "new weights") +
                    "; leave --init-from out to resume it, or use another run folder");
}

}  // namespace

std::optional<InitialWeights> read_init_from(const std::string& init_from, const std::string& run,
                                             const Signature& model) {
  if (init_from.empty()) return std::nullopt;
  const std::optional<InitialWeights> record = read_initial_weights(posix_disk(), run);
  if (record && began_from(*record, init_from)) return std::nullopt;
  if (!CheckpointStore(posix_disk(), run + "/checkpoints").list().empty()) refuse_other_source(init_from, run, record);
  try {
    auto [tensors, file] = find_weights(trimmed(init_from));
    check_fit(model, tensors, file);
    const std::string checksum = checksum_text(tensors);
    return InitialWeights{std::move(tensors),
                          {{"format", "pt"},
                           {kGiven, text_of_path(init_from)},
                           {kPath, absolute(init_from)},
                           {kFile, text_of_path(file)},
                           {kChecksum, checksum}}};
  } catch (const std::runtime_error& refused) {
    throw ConfigError(std::string(kFlag) + ": " + refused.what());
  }
}

void refuse_to_resume(const InitialWeights& given, const std::string& run) {
  refuse_other_source(value_of(given, kGiven), run, read_initial_weights(posix_disk(), run));
}

std::string initial_weights_text(const InitialWeights& weights) {
  return "the weights of " + value_of(weights, kFile) + " (checksum " + value_of(weights, kChecksum) + ")";
}

}  // namespace troupe
