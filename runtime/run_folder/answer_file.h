#pragma once
// AnswerFile: answers.jsonl of a run folder: the answers of the evaluations of a token run, in the order of their
// updates. Owned by the RunFolder, which holds the lock of the folder; one thread at a time.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/run_folder/line_file.h"

namespace troupe {

class AnswerFile {
 public:
  // When it would get larger, its oldest lines are removed.
  static constexpr uint64_t kMostBytes = 64 << 20, kBytesAfterwards = 32 << 20;

  AnswerFile(Disk& disk, const std::string& folder) : disk_(&disk), path_(folder + "/answers.jsonl") {}

  // Removes what a killed process left behind: lines with more updates than `updates`, from which the run resumes, a
  // torn last line, and with it the other lines of its evaluation. Without `updates`, a file with lines is renamed.
  // Throws IoError.
  void begin(std::optional<uint64_t> updates);
  // Adds the lines of the evaluation after this many updates, unless the file has them: then the evaluation was made
  // again. A write that the disk refuses is lost and counted.
  void write(uint64_t updates, const std::string& lines);
  const LostWrites& lost() const { return lost_; }

 private:
  void append(const std::string& lines);

  Disk* disk_;
  std::string path_;
  std::optional<uint64_t> newest_;  // updates of the last line
  LostWrites lost_;
};

}  // namespace troupe
