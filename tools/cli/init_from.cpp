#include "tools/cli/init_from.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "actors/config/config.h"
#include "actors/run_context.h"
#include "models/lm/hf_folder.h"
#include "models/lm/lm_weights.h"
#include "models/lm/peft_folder.h"
#include "models/networks/model_meaning.h"
#include "models/networks/token_transformer_layout.h"
#include "models/weights/initial_weights.h"
#include "models/weights/model_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/run_folder/run_folder.h"
#include "tools/cli/chosen_checkpoint.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/weights_meaning.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFlag = "--init-from";
constexpr size_t kShownPath = 200;
constexpr const char* kModelFile = "/model.safetensors";
constexpr const char* kInitFile = "/init.safetensors";
constexpr const char* kSourceFile = "/init.json";
constexpr const char* kInsteadOfKept =
    "; use another run folder, or remove this file and init.json to begin with new weights";

constexpr const char* kAccepted =
    ", expected the folder of a run, RUN/checkpoints/best, RUN/checkpoints/NUMBER or a .safetensors file";

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

// The path as UTF-8, which metadata requires.
std::string text_of_path(const std::string& path) { return printable(path, std::string::npos); }

std::string absolute(const std::string& path) {
  std::error_code failed;
  return text_of_path(trimmed(fs::absolute(path, failed).string()));
}

// The source of weights: their metadata.
using Source = std::map<std::string, std::string>;

std::string value_of(const Source& source, const char* key) {
  const auto found = source.find(key);
  return found == source.end() ? "" : found->second;
}

std::string checksum_text(const std::map<std::string, Array>& tensors) {
  Checksum checksum;
  for (const auto& [name, array] : tensors) {
    checksum.update(name.data(), name.size() + 1);  // with its final 0
    checksum.update(array.data(), array.bytes());
  }
  return format_hash(checksum.value());
}

// The run that trained weights, as far as it is known.
struct SourceRun {
  std::optional<RunConfig> config;
  std::string folder;  // empty if they are not in one
};

struct Found {
  std::map<std::string, Array> tensors;
  std::string file;  // that holds them
  SourceRun run;
  std::optional<WeightsMeaning> meaning;  // of a language model that is not of a run
};

Found of_run(const std::string& run, const std::string& which) {
  const RunConfig config = load_config(run + "/config.json", ConfigSource::run);
  ChosenCheckpoint chosen = load_checkpoint(run, config, which);
  return {std::move(chosen.checkpoint.model), chosen.path + kModelFile, {config, run}, {}};
}

// The run in a folder, if there is one.
SourceRun run_in(const fs::path& folder) {
  const std::string path = folder / "config.json";
  std::error_code failed;
  if (!fs::exists(path, failed)) return {};
  return {load_config(path, ConfigSource::run), folder.string()};
}

// The settings in a checkpoint. If an older program wrote the checkpoint, it has none: then those of the run whose
// folder it is in.
SourceRun run_of_checkpoint(const fs::path& checkpoint) {
  const std::string settings = read_checkpoint_settings(posix_disk(), checkpoint);
  const fs::path folder = fs::absolute(checkpoint).parent_path();
  const fs::path run = folder.filename() == "checkpoints" ? folder.parent_path() : fs::path();
  if (settings.empty()) return run.empty() ? SourceRun{} : run_in(run);
  return {parse_config(settings, checkpoint / "state.json", ConfigSource::run), run.string()};
}

// The run that wrote a file, if the file is still in the run folder or in a copy of it.
SourceRun run_of_file(const fs::path& file, const Safetensors& contents) {
  const fs::path folder = fs::absolute(file).parent_path();
  if (contents.metadata.contains(kGiven)) return run_in(folder);
  if (file.filename() != "model.safetensors") return {};
  try {
    return run_of_checkpoint(folder);
  } catch (const IoError& error) {
    if (error.is_refusal()) throw;
    return {};  // it is not in the folder of a checkpoint
  }
}

// Throws ConfigError if it cannot be found out whether the file exists.
void require_access(const fs::path& path) {
  std::error_code failed;
  if (fs::status(path, failed).type() == fs::file_type::none)
    throw ConfigError(printable(path.string(), kShownPath) + ": cannot open: " + failed.message());
}

// Throws ConfigError unless `path` is the folder of a run.
void require_run(const std::string& path) {
  try {
    require_run_folder(path);
  } catch (const ConfigError& refused) {
    const std::string_view what = refused.what();
    const bool says_what_to_give = what.ends_with('?') || what.find("; give ") != what.npos;
    std::error_code failed;
    if (says_what_to_give || fs::is_directory(path, failed)) throw;
    throw ConfigError(printable(path, kShownPath) +
                      (fs::exists(path, failed) ? ": is not a folder" : ": there is no such run or file") + kAccepted);
  }
}

Safetensors read_weights(const std::string& path) {
  try {
    return read_safetensors(posix_disk(), path);
  } catch (const std::runtime_error& refused) {
    const bool other_format =
        std::string_view(refused.what()).find("not a valid safetensors file") != std::string::npos;
    if (!other_format || fs::path(path).extension() == ".safetensors") throw;
    throw ConfigError(printable(path, kShownPath) + ": is not a safetensors file" + kAccepted);
  }
}

Found find_weights(const std::string& path) {
  std::error_code failed;
  require_access(path);
  if (fs::is_directory(path, failed)) require_access(fs::path(path) / "state.json");
  if (fs::exists(fs::path(path) / "state.json", failed))
    return {read_checkpoint_model(posix_disk(), path), path + kModelFile, run_of_checkpoint(path), {}};
  if (const auto checkpoint = checkpoint_path(path)) return of_run(checkpoint->run, checkpoint->which);
  const bool is_json = fs::path(path).extension() == ".json";  // such as the config.json of a run
  if (fs::is_directory(path, failed) || !fs::exists(path, failed) || is_json) {
    require_run(path);
    return of_run(path, "newest");
  }
  Safetensors contents = read_weights(path);
  const SourceRun run = run_of_file(path, contents);
  return {std::move(contents.tensors), path, run, {}};
}

// The folder of a model or of adapters, if `path` is the file of its weights; else `path`.
std::string folder_of_model(const std::string& path) {
  const fs::path file(path), folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const bool of_model = file.filename() == "model.safetensors" && is_hf_folder(posix_disk(), folder);
  const bool of_adapters = file.filename() == "adapter_model.safetensors" && is_peft_folder(posix_disk(), folder);
  return of_model || of_adapters ? folder.string() : path;
}

// A folder with a language model as transformers, or with adapters as PEFT writes it; nothing for another path.
std::optional<Found> find_language_model(const std::string& given, const RunContext& context) {
  const Disk& disk = posix_disk();
  const std::string path = folder_of_model(given);
  if (is_peft_folder(disk, path)) {
    PeftAdapters adapters = read_peft_adapters(disk, path, context.language_model->lora, *context.signature);
    return Found{
        std::move(adapters.tensors), path + "/adapter_model.safetensors", {}, meaning_in_folder(adapters.base, path)};
  }
  if (!is_hf_folder(disk, path)) return std::nullopt;
  const HfFolder folder(disk, path, kFlag);
  WeightBlock weights(lm_signature(folder.shape()));
  folder.read([&](const std::string& name) { return weights.floats(name); });
  return Found{weights.save(), path, {}, meaning_in_folder(folder.shape(), path)};
}

// Nothing if this program does not have the environment.
std::optional<EnvSpec> environment_if_known(const RunConfig& config) {
  try {
    return environment_of(config);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

void check_language_model(const Found& found, const RunContext& context) {
  require_same_base(found.tensors, *context.language_model);
  check_given_weights(*context.signature, found.tensors);
  const std::optional<RunConfig>& config = found.run.config;
  require_same_meaning(found.meaning ? *found.meaning
                       : config      ? meaning_in_run(*config, found.run.folder)
                                     : WeightsMeaning(),
                       context, found.file);
}

// A run with adapters takes the decoder from model.path, which every process of it reads.
void refuse_whole_decoder(const Signature& model, const std::map<std::string, Array>& tensors) {
  const std::string embedding = std::string(kTokenDecoderPrefix) + "model.embed_tokens.weight";
  const auto frozen = [](const TensorSpec& tensor) { return tensor.name.starts_with("frozen."); };
  if (tensors.contains(embedding) && std::ranges::any_of(model.tensors, frozen))
    throw ConfigError("has a whole decoder, and this run trains adapters of one (model.lora); set model.path to it");
}

void check_fit(const Found& found, const InitTarget& target) {
  try {
    if (target.tokens != nullptr) return check_language_model(found, *target.tokens);
    const Signature model = model_signature(target.model, target.env);
    refuse_whole_decoder(model, found.tensors);
    check_initial_weights(model, found.tensors);
    const std::optional<RunConfig>& config = found.run.config;
    if (!config) return;
    if (const auto of_source = environment_if_known(*config)) require_same_observations(*of_source, target.env);
    require_same_meaning(config->model, target.model, target.env);
  } catch (const ConfigError& misfit) {
    throw ConfigError(printable(found.file, kShownPath) + ": " + misfit.what());
  }
}

// The copy of the weights that the run keeps. Throws ConfigError if they are not those with which it began.
InitialWeights read_kept(const std::string& run, const Source& source) {
  const std::string path = run + kInitFile, given = value_of(source, kChecksum);
  std::optional<InitialWeights> kept = read_initial_weights(posix_disk(), run);
  if (!kept) throw ConfigError(path + ": is missing");
  if (given.empty())
    throw ConfigError((posix_disk().exists(run + kSourceFile) ? run + kSourceFile + ": holds no " + kChecksum
                                                              : path + ": its metadata holds no " + kChecksum) +
                      ", the checksum of the weights, so --init-from did not write it");
  const std::string checksum = checksum_text(kept->tensors);
  if (checksum != given)
    throw ConfigError(path + ": damaged: its tensors have the checksum " + checksum + ", " + printable(given) +
                      " was written");
  return std::move(*kept);
}

// Checks that the kept weights fit the model. The settings of a run that was killed before its first update may have
// changed since it began.
void check_kept(const InitialWeights& kept, const std::string& run, const InitTarget& target) {
  const Found found{kept.tensors, run + kInitFile, run_in(run), {}};
  try {
    check_fit(found, target);
  } catch (const ConfigError& misfit) {
    throw ConfigError(std::string(misfit.what()) + kInsteadOfKept);
  }
}

InitialWeights weights_of(const std::string& init_from, const InitTarget& target) {
  const std::string path = trimmed(init_from);
  std::optional<Found> of_folder = target.tokens != nullptr ? find_language_model(path, *target.tokens) : std::nullopt;
  Found found = of_folder ? std::move(*of_folder) : find_weights(path);
  if (target.tokens != nullptr) leave_out_other_critic(*target.tokens->signature, found.tensors);
  check_fit(found, target);
  const std::string checksum = checksum_text(found.tensors);
  return {std::move(found.tensors),
          {{"format", "pt"},
           {kGiven, text_of_path(init_from)},
           {kPath, absolute(init_from)},
           {kFile, text_of_path(found.file)},
           {kChecksum, checksum}}};
}

// Reads the weights from `init_from` again, because the copy that the run keeps is damaged or missing.
InitialWeights weights_again(const std::string& init_from, const Source& source, const std::string& damage,
                             const InitTarget& target) {
  InitialWeights again;
  try {
    again = weights_of(init_from, target);
  } catch (const std::runtime_error& refused) {
    throw ConfigError(damage + ", and it cannot be written again: " + kFlag + ": " + refused.what());
  }
  const std::string checksum = value_of(again.metadata, kChecksum), given = value_of(source, kChecksum);
  if (checksum != given)
    throw ConfigError(damage + ", and " + printable(init_from, kShownPath) + " has other weights now (checksum " +
                      checksum + ", the run began with " + printable(given) + "); use another run folder");
  return again;
}

bool began_from(const Source& source, const std::string& init_from) {
  return value_of(source, kGiven) == text_of_path(init_from) || value_of(source, kPath) == absolute(init_from);
}

std::vector<uint64_t> checkpoints_of(const std::string& run) {
  try {
    return CheckpointStore(posix_disk(), run + "/checkpoints").list();
  } catch (const IoError& refused) {
    throw ConfigError(refused.what());
  }
}

[[noreturn]] void refuse_other_source(const std::string& given, const std::string& run,
                                      const std::optional<Source>& source) {
  throw ConfigError(std::string(kFlag) + ": " + printable(given, kShownPath) + ": the run in " + run + " was " +
                    (source ? "started with --init-from " + printable(value_of(*source, kGiven), kShownPath)
                            : std::string("not started with --init-from")) +
                    "; leave --init-from out to resume it, or begin a new run with --run DIR");
}

// Checks the weights that a run keeps, if it began from `source` and has not trained yet. Returns the weights whose
// copy must be written again, if any.
std::optional<InitialWeights> check_source(const Source& source, const std::string& init_from, const std::string& run,
                                           const InitTarget& target) {
  InitialWeights kept;
  try {
    kept = read_kept(run, source);
  } catch (const ConfigError& damage) {
    const bool saved = !checkpoints_of(run).empty();
    if (!init_from.empty() && !saved) return weights_again(init_from, source, damage.what(), target);
    const std::string given = value_of(source, kGiven);
    throw ConfigError(damage.what() +
                      (given.empty() || saved
                           ? "; restore it"
                           : "; restore it, give --init-from " + printable(given, kShownPath) + " again") +
                      ", or use another run folder");
  }
  check_kept(kept, run, target);
  return std::nullopt;
}

}  // namespace

std::optional<InitialWeights> read_init_from(const std::string& init_from, const std::string& run,
                                             const InitTarget& target) {
  const std::vector<uint64_t> saved = checkpoints_of(run);
  const bool trained = !saved.empty() && saved.back() > 0;
  if (init_from.empty() && trained) return std::nullopt;
  const std::optional<Source> source = read_initial_source(posix_disk(), run);
  if (source && (init_from.empty() || began_from(*source, init_from)))
    return trained ? std::nullopt : check_source(*source, init_from, run, target);
  if (init_from.empty()) return std::nullopt;
  if (!saved.empty()) refuse_other_source(init_from, run, source);
  try {
    return weights_of(init_from, target);
  } catch (const std::runtime_error& refused) {
    const std::string begin = std::string(kFlag) + ": ", what = refused.what();
    throw ConfigError(what.starts_with(begin) ? what : begin + what);
  }
}

void refuse_to_resume(const InitialWeights& given, const std::string& run) {
  refuse_other_source(value_of(given.metadata, kGiven), run, read_initial_source(posix_disk(), run));
}

std::string init_from_of_settings(const std::string& config) {
  const fs::path file(config);
  if (file.filename() != "config.json") return "";
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  try {
    const std::optional<Source> source = read_initial_source(posix_disk(), folder);
    return source ? printable(value_of(*source, kGiven), kShownPath) : "";
  } catch (const ConfigError&) {  // the file is damaged, which is a problem of that run only
    return "";
  }
}

std::string initial_weights_text(const InitialWeights& weights) {
  const Source& source = weights.metadata;
  return "the weights of " + printable(value_of(source, kFile), kShownPath) + " (checksum " +
         printable(value_of(source, kChecksum)) + ")";
}

}  // namespace troupe
