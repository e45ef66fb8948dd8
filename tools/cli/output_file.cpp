#include "tools/cli/output_file.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "tools/cli/config_lookup.h"

namespace troupe {

namespace {

namespace fs = std::filesystem;

// The first line, without its line break; as much of it as is read when it is longer.
std::string first_line(const ReadFile& file) {
  constexpr uint64_t kBlock = 64 << 10, kMost = 32 << 20;
  std::string line;
  while (line.size() < std::min(file.size(), kMost)) {
    const std::string block = file.read(line.size(), kBlock);
    const size_t end = block.find('\n');
    line += block.substr(0, end);
    if (end != std::string::npos || block.empty()) break;
  }
  return line;
}

// Whether a run writes such a name in its folder, also with an ending like .tmp or .1.
bool is_run_file(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "about.json",     "alarms.json", "answers.jsonl", "best.json",  "checkpoints",      "code.diff", "config.json",
      "endpoints.json", "epoch",       "events.out",    "init.json",  "init.safetensors", "log.txt",   "made_of.json",
      "metrics.jsonl",  "run.lock",    "run_id",        "stats_port", "summary.json"};
  return std::ranges::any_of(kNames, [&](std::string_view own) {
    return name.starts_with(own) && (name.size() == own.size() || name[own.size()] == '.');
  });
}

// The folder of the run that the file is in, at any depth; empty if it is in none.
std::string run_around(const fs::path& file) {
  for (fs::path folder = file.parent_path(); folder.has_relative_path(); folder = folder.parent_path())
    if (is_run_folder(folder.string())) return folder.string();
  return "";
}

// The error of a file that cannot be written. What it names is renamed once it is complete, and the user has not given
// that name.
ConfigError cannot_write(const std::string& flag, const std::string& file, const IoError& refused) {
  const int number = refused.error_number();
  return ConfigError(flag + ": " +
                     (number == 0
                          ? refused.what()
                          : printable(file, 200) + ": cannot be written: " + std::generic_category().message(number)));
}

}  // namespace

void require_replaceable(const std::string& flag, const std::string& file, const OutputKind& kind) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(flag + ": " + printable(file, 200) + ": " + why);
  };
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(fs::absolute(file), failed);
  if (failed) return;
  const std::string run = run_around(real);
  if (!run.empty() && is_run_file(real.lexically_relative(run).begin()->string()))
    refuse("is a file of the run " + printable(run, 200) + "; give another name");
  // What is written takes the place of the name itself, and not of what a link leads to.
  if (fs::is_symlink(fs::symlink_status(file, failed)))
    refuse("is a link, which would be replaced; give the name of the file itself");
  if (fs::is_other(real, failed)) refuse("is a device or a pipe, which would be replaced; give the name of a file");
  if (!fs::is_regular_file(real, failed) || fs::file_size(real, failed) == 0) return;
  std::string line;
  try {
    line = first_line(*posix_disk().open_read(real.string()));
  } catch (const IoError& refused) {
    throw ConfigError(flag + ": " + refused.what());
  }
  if (!kind.begins(line)) refuse("exists and is not " + kind.what + "; give another name, or remove it");
}

void write_output(const std::string& flag, const std::string& file, std::string_view bytes) {
  try {
    posix_disk().write_atomic(file, bytes);
  } catch (const IoError& refused) {
    throw cannot_write(flag, file, refused);
  }
}

void write_output_in_parts(const std::string& flag, const std::string& file,
                           const std::function<void(const TextSink&)>& write) {
  Disk& disk = posix_disk();
  const std::string temporary = free_temporary_name(disk, file);
  const auto or_refuse = [&](const auto& action) {
    try {
      action();
    } catch (const IoError& refused) {
      throw cannot_write(flag, file, refused);
    }
  };
  try {
    std::unique_ptr<AppendFile> parts;
    or_refuse([&] { parts = disk.open_append(temporary); });
    write([&](std::string_view part) { or_refuse([&] { parts->append(part); }); });
    or_refuse([&] { disk.rename(temporary, file); });
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

OutputKind answers_output() {
  return {"an answers file of troupe eval", [](std::string_view line) {
            const auto json = nlohmann::json::parse(line, nullptr, false);
            return json.is_object() &&
                   std::ranges::all_of(
                       std::initializer_list<const char*>{"updates", "epoch", "prompt", "answer", "reward", "finish"},
                       [&](const char* key) { return json.contains(key); });
          }};
}

OutputKind picture_output() {
  return {"a picture of troupe bench", [](std::string_view line) { return line.starts_with("<svg "); }};
}

}  // namespace troupe
