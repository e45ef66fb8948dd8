#pragma once
// What a deterministic run leaves, which must have the same bytes whenever the run is made.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tests/process/train_process.h"
#include "tests/support/test.h"

namespace troupe::test {

// The files of the checkpoint at `update`, by name, the metrics, and in token runs the answers.
inline std::map<std::string, std::string> results_of(const std::string& folder, uint64_t update) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> files{{"metrics.jsonl", text_of(folder + "/metrics.jsonl")}};
  if (const std::string answers = folder + "/answers.jsonl"; fs::exists(answers)) files["answers"] = text_of(answers);
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(checkpoint_folder(folder, update), none))
    files[entry.path().filename()] = text_of(entry.path());
  return files;
}

// `files`: metrics, model, optimizer, extras, state; in token runs answers too.
inline void check_same(const std::string& folder, const std::string& reference, uint64_t update = 40,
                       size_t files = 5) {
  const auto got = results_of(folder, update), wanted = results_of(reference, update);
  REQUIRE(wanted.size() == files);
  REQUIRE(got.size() == wanted.size());
  for (const auto& [name, bytes] : wanted) {
    CAPTURE(name);
    CHECK(!bytes.empty());
    CHECK((got.at(name) == bytes));
  }
}

}  // namespace troupe::test
