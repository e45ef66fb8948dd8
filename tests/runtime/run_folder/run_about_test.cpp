#include "runtime/run_folder/run_about.h"

#include <nlohmann/json.hpp>

#include "runtime/base/memory_disk.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using nlohmann::json;

StartFacts facts(const std::string& command, const std::string& diff = "") {
  return {.time = "2026-01-01T00:00:00Z",
          .command = command,
          .folder = "/home/me",
          .host = "box",
          .versions = {{"troupe", "1"}},
          .commit = "0123abcd",
          .diff = diff};
}

json document(const MemoryDisk& disk) { return json::parse(disk.read("run/about.json")); }

}  // namespace

TEST_CASE("keep_about: the name, the tags and the start of a run, which read_about gives back") {
  MemoryDisk disk;
  keep_about(disk, "run", {"first", "a note", {"b", "a"}}, facts("troupe train x", "+line"));
  const RunAbout about = read_about(disk, "run");
  CHECK(about.name == "first");
  CHECK(about.note == "a note");
  CHECK(about.tags == std::vector<std::string>{"a", "b"});
  const json start = document(disk).at("starts").at(0);
  CHECK(start.at("command") == "troupe train x");
  CHECK(start.at("commit") == "0123abcd");
  CHECK(disk.read("run/" + start.at("diff").get<std::string>()) == "+line");
}

TEST_CASE("keep_about: a resumed run keeps what it is called; tags are added, a new name replaces the old one") {
  MemoryDisk disk;
  keep_about(disk, "run", {"first", "a note", {"a"}}, facts("x"));
  keep_about(disk, "run", {}, facts("x"));
  CHECK(read_about(disk, "run").name == "first");
  keep_about(disk, "run", {"second", "", {"b", "a"}}, facts("x"));
  const RunAbout about = read_about(disk, "run");
  CHECK(about.name == "second");
  CHECK(about.note == "a note");
  CHECK(about.tags == std::vector<std::string>{"a", "b"});
}

TEST_CASE("keep_about: only a start that differs is appended, with a diff of its own") {
  MemoryDisk disk;
  keep_about(disk, "run", {}, facts("x", "+one"));
  StartFacts later = facts("x", "+one");
  later.time = "2027-01-01T00:00:00Z";
  keep_about(disk, "run", {}, later);
  CHECK(document(disk).at("starts").size() == 1);
  keep_about(disk, "run", {}, facts("y", "+one"));
  keep_about(disk, "run", {}, facts("y", "+two"));
  const json starts = document(disk).at("starts");
  REQUIRE(starts.size() == 3);
  CHECK(starts[1].at("diff") == "code.diff");
  CHECK(starts[2].at("diff") == "code.diff.3");
  CHECK(disk.read("run/code.diff") == "+one");
  CHECK(disk.read("run/code.diff.3") == "+two");
}

TEST_CASE("keep_about: without a start only what the run is called changes") {
  MemoryDisk disk;
  keep_about(disk, "run", {"a", "", {}}, facts("x"));
  keep_about(disk, "run", {"b", "", {}}, std::nullopt);
  CHECK(document(disk).at("starts").size() == 1);
  CHECK(read_about(disk, "run").name == "b");
}

TEST_CASE("read_about: a missing or damaged file, and members of other kinds, tell nothing") {
  MemoryDisk disk;
  CHECK(read_about(disk, "run").name == "");
  disk.write_atomic("run/about.json", "{\"name\": 3, \"tags\": [1, \"a\"]");
  CHECK(read_about(disk, "run").tags.empty());
  disk.write_atomic("run/about.json", "{\"name\": 3, \"tags\": [1, \"a\"]}");
  CHECK(read_about(disk, "run").tags == std::vector<std::string>{"a"});
  CHECK(read_about(disk, "run").name == "");
}

TEST_CASE("keep_about: texts that are not UTF-8 are kept with other characters, and are the same the next time") {
  MemoryDisk disk;
  keep_about(disk, "run", {}, facts("\xff"));
  keep_about(disk, "run", {}, facts("\xff"));
  CHECK(document(disk).at("starts").size() == 1);
}
