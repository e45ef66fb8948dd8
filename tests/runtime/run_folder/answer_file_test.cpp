#include "runtime/run_folder/answer_file.h"

#include <algorithm>
#include <string>

#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/run_folder.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr const char* kFile = "run/answers.jsonl";

std::string line(uint64_t updates, const std::string& answer = "a") {
  return R"({"updates":)" + std::to_string(updates) + R"(,"answer":")" + answer + "\"}\n";
}

}  // namespace

TEST_CASE("answer_file: a resume keeps the evaluations up to its checkpoint, and no torn one") {
  struct Case {
    std::string before, after;
    uint64_t updates = 0;  // of the checkpoint
  };
  const std::string two = line(2) + line(2, "b"), four = line(4) + line(4, "b");
  for (const Case& each : std::vector<Case>{
           {two + four, two + four, 4},
           {two + four, two, 3},
           {two + four, "", 1},
           {two + line(4) + R"({"updates":4,"answ)", two, 4},  // torn: others of its lines are missing too
           {two + R"({"updates":4,"answ)", two, 4},            // torn in its first line
           {two + "{", two, 4},
           {two + "no JSON\n", two, 4},
           {"no JSON\n" + two, "no JSON\n" + two, 4},
           {"", "", 4},
       }) {
    CAPTURE(each.before);
    MemoryDisk disk;
    disk.write_atomic(kFile, each.before);
    AnswerFile file(disk, "run");
    file.begin(each.updates);
    CHECK(disk.read(kFile) == each.after);
    file.write(9, line(9));
    CHECK(disk.read(kFile) == each.after + line(9));
  }
}

TEST_CASE("answer_file: an evaluation that is made again after a resume does not add its answers twice") {
  MemoryDisk disk;
  disk.write_atomic(kFile, line(2) + line(4));
  AnswerFile file(disk, "run");
  file.begin(4);
  for (const uint64_t updates : {2, 4}) file.write(updates, line(updates, "again"));
  file.write(6, line(6));
  file.write(6, line(6, "again"));
  CHECK(disk.read(kFile) == line(2) + line(4) + line(6));
}

TEST_CASE("answer_file: a run that begins anew renames the file of the one before") {
  MemoryDisk disk;
  disk.write_atomic(kFile, line(2));
  AnswerFile file(disk, "run");
  file.begin(std::nullopt);
  file.write(1, line(1));
  CHECK(disk.read(kFile) == line(1));
  CHECK(disk.read("run/answers.jsonl.1") == line(2));
}

TEST_CASE("answer_file: a file that was cut or removed during the run goes on with whole lines") {
  MemoryDisk disk;
  AnswerFile file(disk, "run");
  file.begin(std::nullopt);
  file.write(1, line(1) + line(1, "b"));
  disk.truncate(kFile, line(1).size() + 3);
  file.write(2, line(2));
  CHECK(disk.read(kFile) == line(1) + line(2));
  disk.remove(kFile);
  file.write(3, line(3));
  CHECK(disk.read(kFile) == line(3));
}

TEST_CASE("answer_file: what a full disk refuses is lost and counted") {
  MemoryDisk disk;
  AnswerFile file(disk, "run");
  file.begin(std::nullopt);
  disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 2});
  for (const uint64_t updates : {1, 2}) file.write(updates, line(updates));
  disk.clear_fault();
  file.write(3, line(3));
  CHECK(file.lost().total == 2);
  CHECK(disk.read(kFile) == line(3));
}

TEST_CASE("answer_file: its size is bounded: the oldest lines are removed, and the others stay whole") {
  MemoryDisk disk;
  AnswerFile file(disk, "run");
  file.begin(std::nullopt);
  const std::string answer(1 << 20, 'x');
  uint64_t updates = 0;
  const auto size = [&] { return disk.open_read(kFile)->size(); };
  for (uint64_t before = 0; updates < 200; before = size()) {
    file.write(updates + 1, line(updates + 1, answer));
    ++updates;
    if (size() < before) break;
  }
  CHECK(updates * answer.size() > AnswerFile::kMostBytes - (2 << 20));
  CHECK(size() <= AnswerFile::kBytesAfterwards);
  CHECK(size() > AnswerFile::kBytesAfterwards - (2 << 20));
  const std::string text = disk.read(kFile, AnswerFile::kMostBytes);
  CHECK(text.ends_with(line(updates, answer)));
  const size_t lines = static_cast<size_t>(std::ranges::count(text, '\n'));
  CHECK(text.starts_with(line(updates + 1 - lines, answer)));
}

TEST_CASE("answer_file: a run folder has it, and counts what it lost") {
  MemoryDisk disk;
  RunFolder folder(disk, "run", "{}");
  folder.begin_metrics(1.0, std::nullopt);
  folder.write_answers(1, line(1));
  CHECK(disk.read(kFile) == line(1));
  disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 1});
  folder.write_answers(2, line(2));
  CHECK(folder.lost_writes() == 1);
}
