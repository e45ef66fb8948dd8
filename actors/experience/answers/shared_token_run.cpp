#include "actors/experience/answers/shared_token_run.h"

#include <filesystem>
#include <tuple>
#include <utility>

#include "runtime/base/mutex.h"
#include "text/make_tokenizer.h"

namespace troupe {

namespace {

// Size of a file and time of its last change; 0 without the file.
using FileStamp = std::pair<uintmax_t, std::filesystem::file_time_type>;
using Settings = std::tuple<TaskConfig, TokenizerConfig, int64_t, std::string>;

struct Last {
  Mutex mutex;
  std::shared_ptr<const TokenRun> run;
  Settings settings;
  std::vector<FileStamp> stamps;
};

Last& last() {
  static Last result;
  return result;
}

FileStamp stamp_of(const std::string& path) {
  std::error_code failed;
  const uintmax_t size = std::filesystem::file_size(path, failed);
  if (failed) return {};
  const auto time = std::filesystem::last_write_time(path, failed);
  return failed ? FileStamp() : FileStamp(size, time);
}

std::vector<FileStamp> stamps_of(const TokenRun& run, const TokenizerConfig& tokenizer) {
  std::vector<FileStamp> stamps;
  for (const auto& files : {run.task->files(), tokenizer_files(tokenizer)})
    for (const std::string& file : files) stamps.push_back(stamp_of(file));
  return stamps;
}

}  // namespace

std::shared_ptr<const TokenRun> shared_token_run(const RunConfig& config) {
  Last& kept = last();
  const MutexLock lock(kept.mutex);
  const Settings settings(config.task, config.tokenizer, config.generation.max_tokens, config.generation.stop);
  if (kept.run && kept.settings == settings && kept.stamps == stamps_of(*kept.run, config.tokenizer)) return kept.run;
  kept.run = nullptr;
  kept.run = make_token_run(config);
  kept.settings = settings;
  kept.stamps = stamps_of(*kept.run, config.tokenizer);
  return kept.run;
}

std::shared_ptr<const TokenRun> without_prompts(const TokenRun& run) {
  auto copy = std::make_shared<TokenRun>(run);
  copy->task = nullptr;
  Last& kept = last();
  const MutexLock lock(kept.mutex);
  kept.run = nullptr;
  return copy;
}

}  // namespace troupe
