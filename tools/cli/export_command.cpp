// `troupe export`: writes the language model of a run as files that transformers and PEFT load.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <utility>

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
#include "tools/cli/found_runs.h"
#include "tools/cli/launch.h"
#include "tools/cli/made_of.h"
#include "tools/cli/merged_run.h"
#include "tools/cli/metrics_csv.h"
#include "tools/cli/moved_files.h"
#include "tools/cli/new_folder.h"
#include "tools/cli/token_context.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostTokenizerBytes = 64 << 20;

struct ExportOptions {
  std::string run_dir;  // the first argument
  Words runs;           // all arguments: several with --csv
  std::string folder;   // with --hf
  std::string run;      // with --run
  std::string csv;      // with --csv
  std::string checkpoint = "newest";
  Words moved;  // where files of the run are now
  bool merge = false;
};

ExportOptions read_export(Flags& flags) {
  ExportOptions options;
  flags.required_arguments("RUN...", options.runs,
                           "folder of the run; with --csv also several, and folders that hold such folders");
  flags.option("--hf", kFolderType, options.folder, path_to("a new or an empty folder"),
               "folder to write the files of a language model into: a new or an empty one");
  flags.option("--run", kFolderType, options.run, path_to("a new or an empty folder"),
               "with --merge, of a token_transformer with adapters: run folder to write, a new or an empty one, for "
               "`eval`, `play`, --init-from and model.path");
  flags.option(
      "--csv", kFileType, options.csv, path_to("a file, or -"),
      "file to write the curves to, as CSV: a column for each figure of metrics.jsonl, a line for each record; of "
      "several runs, with columns for the run and the settings in which they differ; - is stdout");
  flags.exactly_one_of({"--hf", "--run", "--csv"});
  flags.toggle("--merge", options.merge, "add the adapters of a run with model.lora to the weights they belong to");
  add_checkpoint_flag(flags, options.checkpoint);
  add_moved_files(flags, options.moved);
  flags.read();
  for (const std::string& run : options.runs) path_to(kRunFolder)("RUN", run);
  options.run_dir = options.runs.front();
  if (options.runs.size() > 1 && options.csv.empty())
    flags.refuse('"' + printable(options.runs[1]) + "\" is one argument too many; only --csv takes several runs");
  if (!options.csv.empty())
    for (const char* flag : {"--merge", "--checkpoint", "--set"})
      if (flags.given(flag)) flags.refuse(std::string(flag) + ": has no effect with --csv; leave it out");
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

// The checkpoint that is exported, which must fit the signature of the context.
Checkpoint checkpoint_of(const ExportOptions& options, const RunContext& context) {
  require_made_of(options.run_dir, made_of(context));
  auto [checkpoint, path] =
      load_checkpoint(options.run_dir, context.config, options.checkpoint, context.signature->total_bytes());
  try {
    check_initial_weights(*context.signature, checkpoint.model);
  } catch (const ConfigError& misfit) {
    throw ConfigError(path + ": " + misfit.what());
  }
  return std::move(checkpoint);
}

void write_folder(const std::string& flag, const std::string& folder,
                  const std::function<void(const std::string& parts)>& write) {
  try {
    write_new_folder(folder, write);
  } catch (const IoError& refused) {
    throw ConfigError(flag + ": " + refused.what());
  }
}

void tell(const std::string& folder, const std::string& what, const ExportOptions& options,
          const Checkpoint& checkpoint) {
  print_line(folder + ": the " + what + " of " + printable(options.run_dir, 200) + " after " +
             trained_text(checkpoint.version.number, warmup_steps_of(checkpoint)));
}

void export_language_model(const ExportOptions& options, const RunConfig& config) {
  RunContext context;
  context.config = config;
  if (!is_token_run(config))
    throw ConfigError(printable(options.run_dir, 200) + ": model.kind is \"" + config.model.kind +
                      "\", only runs with \"decoder\" can be exported");
  add_generators(context);
  const bool adapters = context.language_model->lora.used();
  if (options.merge && !adapters) throw ConfigError("--merge: has no effect, the run has no model.lora; remove it");
  Checkpoint checkpoint = checkpoint_of(options, context);
  for (const TensorSpec& tensor : context.signature->tensors)
    if (!is_published(tensor.group)) checkpoint.model.erase(tensor.name);
  write_folder("--hf", options.folder,
               [&](const std::string& parts) { write_parts(options, context, checkpoint.model, parts); });
  tell(options.folder, adapters && !options.merge ? "adapters" : "model", options, checkpoint);
}

void export_merged_run(const ExportOptions& options, const RunConfig& config) {
  if (!options.merge) throw ConfigError("--run: writes a run without adapters, which needs --merge; add it");
  const RunContext context = adapters_context(options.run_dir, config);
  const Checkpoint checkpoint = checkpoint_of(options, context);
  write_folder("--run", options.run, [&](const std::string& parts) { write_merged_run(context, checkpoint, parts); });
  tell(options.run, "merged model", options, checkpoint);
}

// The table of one run, or of those in several folders.
void write_csv(const ExportOptions& options, const TextSink& sink) {
  try {
    if (options.runs.size() == 1 && posix_disk().exists(options.run_dir + "/config.json")) {
      require_run_folder(options.run_dir);
      return metrics_csv(posix_disk(), {}, {{options.run_dir, {}}}, sink);
    }
    FoundRuns found = find_runs(options.runs);
    std::erase_if(found.runs, [&](const RunOverview& run) {
      const bool empty = !posix_disk().exists(metrics_file(run.folder));
      if (empty) found.problems.push_back(run.folder + ": has no records");
      return empty;
    });
    if (found.runs.empty()) throw ConfigError(found.problems.front());
    print_problems(found.problems);
    runs_csv(posix_disk(), found.runs, sink);
  } catch (const IoError& refused) {
    throw ConfigError(refused.what());
  }
}

// Lines without the control characters of their texts, which a terminal would interpret.
void print_safely(std::string_view lines) {
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    std::string_view line = lines.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::cout << fitted(line, SIZE_MAX) << '\n';
    begin = end + 1;
  }
}

void export_csv(const ExportOptions& options) {
  if (options.csv == "-") {
    const bool terminal = isatty(STDOUT_FILENO) != 0;
    return write_csv(options, [&](std::string_view lines) {
      if (terminal)
        print_safely(lines);
      else
        std::cout << lines;
    });
  }
  require_replaceable("--csv", options.csv, csv_output());
  write_output_in_parts("--csv", options.csv, [&](const TextSink& sink) { write_csv(options, sink); });
  print_line(options.csv + ": the curves of " + printable(options.run_dir, 200) +
             (options.runs.size() > 1 ? " and others" : ""));
}

void run_export(const ExportOptions& options) {
  const bool run = !options.run.empty();
  if (!options.csv.empty()) return export_csv(options);
  require_run_folder(options.run_dir);
  require_new_folder(run ? "--run" : "--hf", run ? options.run : options.folder);
  const RunConfig config = load_stored_config(options.run_dir + "/config.json", options.moved);
  (run ? export_merged_run : export_language_model)(options, config);
}

}  // namespace

Command export_command() {
  return {.name = "export",
          .summary = "write a run's language model for transformers and PEFT, or its curves as CSV",
          .examples =
              "  troupe export runs/reverse --hf models/reverse\n"
              "  troupe export runs/smollm2_chain_sum --hf models/adapters\n"
              "  troupe export runs/smollm2_chain_sum --hf models/merged --merge\n"
              "  troupe export runs/adapted --run runs/merged --merge\n"
              "  troupe export runs/cartpole --csv cartpole.csv\n"
              "  troupe export runs/sweep --csv sweep.csv    # one table of all runs\n",
          .exit_codes = {{0, "the folder or the file is complete"},
                         {1, "stdout could not be written"},
                         {2,
                          "a mistake in the command, a run folder that cannot be used, or a folder or file that "
                          "cannot be written"}},
          .parse = read_then_run<read_export, run_export>};
}

}  // namespace troupe
