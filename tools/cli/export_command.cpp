// `troupe export`: writes the language model of a run as files that transformers and PEFT load.

#include <filesystem>

#include "actors/spec_fields.h"
#include "models/lm/hf_export.h"
#include "models/weights/initial_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "text/write_tokenizer.h"
#include "tools/cli/chosen_checkpoint.h"
#include "tools/cli/command.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/launch.h"
#include "tools/cli/made_of.h"
#include "tools/cli/moved_files.h"
#include "tools/cli/token_context.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostTokenizerBytes = 64 << 20;

struct ExportOptions {
  std::string run_dir;
  std::string folder;
  std::string checkpoint = "newest";
  Words moved;  // where files of the run are now
  bool merge = false;
};

ExportOptions read_export(Flags& flags) {
  ExportOptions options;
  flags.argument("RUN", options.run_dir, path_to(kRunFolder), "folder of the run");
  flags.required_option("--hf", kFolderType, options.folder, path_to("a new or an empty folder"),
                        "folder to write: a new or an empty one");
  flags.toggle("--merge", options.merge, "add the adapters of a run with model.lora to the weights they belong to");
  flags.option("--checkpoint", "WHICH", options.checkpoint, parse_checkpoint,
               "newest, best (of a run with checkpoint.keep_best), or a number of updates (default: newest)");
  add_moved_files(flags, options.moved);
  flags.read();
  return options;
}

WrittenTokens written_tokens(const TokenRun& run) {
  const Tokenizer& tokenizer = *run.tokenizer;
  const auto text_of = [&](std::optional<int32_t> id) {
    return id ? tokenizer.decode(std::vector<int32_t>{*id}) : std::string();
  };
  return {.bos = text_of(tokenizer.bos()),
          .eos = text_of(run.end_tokens.front()),
          .pad = text_of(tokenizer.pad()),
          .chat = run.chat,
          .prompts_begin_with_bos = tokenizer.prompts_begin_with_bos()};
}

// The files of the tokenizer: those that the run read, with the tokens and the prompts of the run, or those of a char
// tokenizer.
void write_tokenizer(const RunConfig& config, const TokenRun& tokens, LmFamily family, const std::string& folder) {
  if (const auto* chars = dynamic_cast<const CharTokenizer*>(tokens.tokenizer.get()))
    return write_tokenizer_json(*chars, posix_disk(), folder,
                                family == LmFamily::qwen2 ? CharacterTokens::added : CharacterTokens::vocabulary);
  const fs::path given = config.tokenizer.path;
  const fs::path from = fs::is_directory(given) ? given : given.parent_path();
  const std::string file = fs::is_directory(given) ? (given / "tokenizer.json").string() : given.string();
  posix_disk().write_atomic(folder + "/tokenizer.json", posix_disk().read(file, kMostTokenizerBytes));
  const std::string beside = from / "tokenizer_config.json";
  const std::string base = posix_disk().exists(beside) ? posix_disk().read(beside) : "";
  posix_disk().write_atomic(folder + "/tokenizer_config.json",
                            tokenizer_config_json(written_tokens(tokens), base, printable(beside, 200)));
}

void require_new_folder(const std::string& folder) {
  std::error_code failed;
  if (!fs::exists(folder, failed)) return;
  if (!fs::is_directory(folder, failed))
    throw ConfigError("--hf: " + printable(folder, 200) + ": is not a folder, expected a new or an empty one");
  if (!fs::is_empty(folder, failed))
    throw ConfigError("--hf: " + printable(folder, 200) + ": is not empty, expected a new or an empty folder");
}

// All that write_parts() may write.
std::vector<std::string> exported_files() {
  std::vector<std::string> names = {"model.safetensors",     "config.json",    "adapter_model.safetensors",
                                    "adapter_config.json",   "tokenizer.json", "tokenizer_config.json",
                                    "generation_config.json"};
  for (size_t i = names.size(); i-- > 0;) names.push_back(temporary_name(names[i]));
  return names;
}

void write_parts(const ExportOptions& options, const RunContext& context, const std::map<std::string, Array>& tensors,
                 const std::string& folder) {
  Disk& disk = posix_disk();
  const LmModel& model = *context.language_model;
  const TokenRun& run = *context.tokens;
  const ExportedIds ids{.bos = run.tokenizer->bos(), .pad = run.tokenizer->pad(), .ends = run.end_tokens};
  if (!model.lora.used())
    write_hf_model(disk, folder, model.shape, ids, tensors);
  else if (options.merge)
    write_hf_model(disk, folder, model.shape, ids, merge_adapters(model, tensors));
  else
    write_peft_adapters(disk, folder, model, tensors);
  write_generation_config(disk, folder, model, ids, run.answer_tokens);
  write_tokenizer(context.config, run, model.shape.family, folder);
}

// A folder that this call makes beside `target`. What is there of such a name belongs to others.
std::string make_parts_folder(const std::string& target) {
  for (;;) {
    std::string folder = free_temporary_name(posix_disk(), target);
    std::error_code failed;
    if (fs::create_directory(folder, failed)) return folder;
    if (failed) throw IoError(folder, "cannot make directory", failed.value());
  }
}

// The folders above `path` that are missing, the innermost first.
std::vector<fs::path> missing_above(const fs::path& path) {
  std::vector<fs::path> result;
  std::error_code failed;
  for (fs::path each = path.parent_path(); !fs::exists(each, failed) && each.has_relative_path();
       each = each.parent_path())
    result.push_back(each);
  return result;
}

// The folder to write, behind links if it is there.
fs::path target_of(const std::string& folder) {
  std::error_code failed;
  if (const fs::path real = fs::canonical(folder, failed); !failed) return real;
  const fs::path target = fs::absolute(folder).lexically_normal();
  return target.has_filename() ? target : target.parent_path();
}

// Everything is written beside the folder first, so that a folder of that name is complete. An export that fails leaves
// nothing behind, and removes nothing else.
void write_folder(const ExportOptions& options, const RunContext& context,
                  const std::map<std::string, Array>& tensors) {
  Disk& disk = posix_disk();
  const fs::path target = target_of(options.folder);
  const std::vector<fs::path> made = missing_above(target);
  std::string parts;
  try {
    disk.make_directory(target.parent_path());
    parts = make_parts_folder(target);
    write_parts(options, context, tensors, parts);
    disk.rename(parts, target);  // replaces an empty folder, refuses one that is not
  } catch (...) {
    if (!parts.empty()) disk.remove_directory(parts, exported_files());
    std::error_code stays;  // one that is not empty by now
    for (const fs::path& folder : made) fs::remove(folder, stays);
    throw;
  }
}

void run_export(const ExportOptions& options) {
  require_run_folder(options.run_dir);
  require_new_folder(options.folder);
  RunContext context;
  context.config = load_stored_config(options.run_dir + "/config.json", options.moved);
  if (!is_token_run(context.config))
    throw ConfigError(printable(options.run_dir, 200) + ": model.kind is \"" + context.config.model.kind +
                      "\", only runs with \"decoder\" can be exported");
  add_generators(context);
  require_made_of(options.run_dir, made_of(context));
  if (options.merge && !context.language_model->lora.used())
    throw ConfigError("--merge: has no effect, the run has no model.lora; remove it");
  auto [checkpoint, path] =
      load_checkpoint(options.run_dir, context.config, options.checkpoint, context.signature->total_bytes());
  try {
    check_initial_weights(*context.signature, checkpoint.model);
  } catch (const ConfigError& misfit) {
    throw ConfigError(path + ": " + misfit.what());
  }
  for (const TensorSpec& tensor : context.signature->tensors)
    if (!is_published(tensor.group)) checkpoint.model.erase(tensor.name);
  try {
    write_folder(options, context, checkpoint.model);
  } catch (const IoError& refused) {
    throw ConfigError("--hf: " + std::string(refused.what()));
  }
  const bool adapters = context.language_model->lora.used() && !options.merge;
  print_line(options.folder + ": the " + (adapters ? "adapters" : "model") + " of " + printable(options.run_dir, 200) +
             " after " + trained_text(checkpoint.version.number, warmup_steps_of(checkpoint)));
}

}  // namespace

Command export_command() {
  return {.name = "export",
          .summary = "write the language model of a run as files that transformers and PEFT load",
          .examples =
              "  troupe export runs/reverse --hf models/reverse\n"
              "  troupe export runs/smollm2_chain_sum --hf models/adapters\n"
              "  troupe export runs/smollm2_chain_sum --hf models/merged --merge\n",
          .exit_codes = {{0, "the folder is complete"},
                         {2,
                          "a mistake in the command, a run folder that cannot be used, or a folder that cannot be "
                          "written"}},
          .parse = read_then_run<read_export, run_export>};
}

}  // namespace troupe
