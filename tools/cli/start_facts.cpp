#include "tools/cli/start_facts.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <string_view>

#include "runtime/base/child_process.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/errors.h"
#include "tools/cli/this_command.h"
#include "tools/cli/torch_check.h"
#include "tools/cli/version.h"

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kLimit{5000};

std::string time_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  char text[32];
  if (gmtime_r(&now, &utc) == nullptr || std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0) return "";
  return text;
}

// git with these words, in a way that writes nothing to the work tree and starts no other programs.
std::vector<std::string> git(std::initializer_list<std::string> words) {
  std::vector<std::string> command = {"git", "--no-optional-locks", "-c", "core.fsmonitor=false"};
  command.insert(command.end(), words);
  return command;
}

// The newest commit; empty where there is none.
std::string commit_here() {
  ChildProcess child(git({"rev-parse", "--verify", "HEAD"}), {});
  if (!child.wait(kLimit) || child.exit_code() != 0) return "";
  const std::string commit = child.last_line();
  return commit.find_first_not_of("0123456789abcdef") == std::string::npos ? commit : "";
}

void add_diff(StartFacts& facts) {
  const Descriptor file(memfd_create("diff", MFD_CLOEXEC));
  if (file.number() < 0) return;
  const int descriptors[] = {file.number()};  // the program sees it as 3
  ChildProcess child(git({"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--output=/dev/fd/3", "HEAD"}),
                     descriptors);
  if (!child.wait(kLimit) || child.exit_code() != 0) return;
  std::string diff(kMostDiff + 1, '\0');
  const ssize_t got = ::pread(file.number(), diff.data(), diff.size(), 0);
  diff.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  facts.diff_cut = diff.size() > kMostDiff;
  diff.resize(std::min(diff.size(), kMostDiff));
  facts.diff = std::move(diff);
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

StartFacts start_facts() {
  StartFacts facts;
  facts.time = time_now();
  facts.command = this_command();
  facts.host = host_name();
  facts.versions = {{"troupe", troupe_version()}, {"torch", std::string(torch_built_with())}};
  std::error_code failed;
  facts.folder = std::filesystem::current_path(failed).string();
  try {
    facts.commit = commit_here();
    if (!facts.commit.empty()) add_diff(facts);
  } catch (const IoError&) {  // no git
  }
  return facts;
}

}  // namespace troupe
