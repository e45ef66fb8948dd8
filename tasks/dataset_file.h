#pragma once
// Reads prompts from a file with one JSON object per line (JSON Lines). Blocks on the disk; any thread.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace troupe {

// Where the objects have what a prompt consists of. A key may also be a path to a member of a member, like
// reward_model.ground_truth.
struct DatasetKeys {
  std::string prompt, truth, demonstration;
  // A verifier scores the answers: only the prompt is required, a truth may be any JSON, and Prompt::columns is the
  // line.
  bool verified = false;
};

struct DatasetPrompt {
  Prompt prompt;
  std::shared_ptr<const std::string> file;  // its path
  size_t line = 0;                          // of the file, from 1
};

// The prompt of a JSON object, at "FILE:LINE" `place`. Throws ConfigError as read_dataset().
Prompt dataset_prompt(std::string_view object, const DatasetKeys& keys, const std::string& place);

inline constexpr uint64_t kMostDatasetBytes = uint64_t{256} << 20;
inline constexpr size_t kLongestDatasetLine = size_t{1} << 20;  // bytes
inline constexpr size_t kMostDatasetPrompts = 1'000'000;

// The prompts of the file, in its order; empty lines do not count. Prompt and truth are required. A prompt is a text or
// a list of messages {"role", "content"} with one of the user or a tool at its end, and a truth may be a whole number.
// Lines without the key "truth" may have it where verl does, in reward_model.ground_truth. Without a demonstration, the
// truth is one, unless a verifier scores. Other keys are ignored. Throws ConfigError "FILE:LINE[:COLUMN]: ..." for the
// first line that is not accepted and for a prompt that is there twice, and "task.params.path: ..." for a file that
// cannot be read, is empty or is too large.
std::vector<DatasetPrompt> read_dataset(const std::string& path, const DatasetKeys& keys, const std::string& setting);

}  // namespace troupe
