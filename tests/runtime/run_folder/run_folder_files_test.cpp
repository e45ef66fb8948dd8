#include "runtime/run_folder/run_folder.h"

#include <sys/resource.h>

#include <filesystem>

#include "runtime/base/errors.h"
#include "runtime/base/memory_disk.h"
#include "tests/runtime/run_folder/run_folder_fixture.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("run_folder: large metrics are truncated without reading them into memory") {
  test::TempFolder folder;
  const std::string path = folder / "run/metrics.jsonl";
  {
    const RunFolder made(posix_disk(), folder / "run", kConfig);
  }
  posix_disk().write_atomic(path, "{\"updates\":1,\"env_steps\":8}\n{\"updates\":2,\"env_steps\":16}\n");
  std::filesystem::resize_file(path, uint64_t{1} << 30);
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = peak();
  RunFolder run(posix_disk(), folder / "run", kConfig);
  run.begin_metrics(1.0, RunFolder::ResumePoint{1, 8});
  CHECK(posix_disk().read(path) == "{\"updates\":1,\"env_steps\":8}\n");
  CHECK(run.metrics_lines() == 1);
#if defined(__SANITIZE_ADDRESS__)
  constexpr long kMost = 512 << 10;  // half of the file; the sanitizer keeps up to 256 MiB of freed memory
#else
  constexpr long kMost = 100 << 10;
#endif
  CHECK(peak() - before < kMost);
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: lines of metrics are counted, also after a resume") {
  {
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(1.0, std::nullopt);
    for (int i = 0; i < 3; ++i) run.write_metrics(R"({"updates":1,"env_steps":10})");
    CHECK(run.metrics_lines() == 3);
  }
  for (const auto lines : {std::optional<uint64_t>(), std::optional<uint64_t>(2)}) {
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(2.0, RunFolder::ResumePoint{1, 10, lines});
    CHECK(run.metrics_lines() == lines.value_or(3));
  }
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: a line of metrics is in the file immediately, and a text of two lines is refused") {
  RunFolder run(disk, "run", kConfig);
  run.begin_metrics(1.0, std::nullopt);
  run.write_metrics(R"({"updates":1})");
  CHECK(metrics() == "{\"updates\":1}\n");
  CHECK_THROWS_AS(run.write_metrics("{\n}"), InvariantError);
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: at a resume an incomplete line and lines after the checkpoint are cut off") {
  struct Case {
    std::string before;
    std::optional<RunFolder::ResumePoint> resume;
    std::string after;
  };
  const auto line = [](int updates, int env_steps) {
    return "{\"updates\":" + std::to_string(updates) + ",\"env_steps\":" + std::to_string(env_steps) + "}\n";
  };
  const std::string two = line(1, 10) + line(2, 20);
  const Case cases[] = {
      {two, {{2, 20}}, two},
      {two + "{\"upd", {{2, 20}}, two},
      {two + line(3, 30) + line(4, 40) + "{\"u", {{2, 20}}, two},
      {two + line(2, 25), {{2, 20}}, two},  // the same update, but after the checkpoint
      {two + "garbage\n\n", {{2, 20}}, two},
      {two, {{0, 0}}, ""},
      {two + line(2, 20), {{2, 20, 2}}, two},
      {two + "{\"upd", {{1, 10, 2}}, two},
      {two, {{2, 20, 0}}, ""},
      {two, {{2, 20, 3}}, two},
      {"{\"updates\":2", {{2, 20}}, ""},
      {"\n", {{2, 20}}, ""},
      {"", {{2, 20}}, ""},
  };
  for (const Case& each : cases) {
    disk.write_atomic("run/config.json", kConfig);
    disk.write_atomic("run/metrics.jsonl", each.before);
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(1.0, each.resume);
    CHECK(metrics() == each.after);
    run.write_metrics("{\"updates\":9}");
    CHECK(metrics() == each.after + "{\"updates\":9}\n");
  }
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: a run without a checkpoint starts new metrics and keeps those of every start") {
  for (const std::string start : {"1", "2", "3"}) {
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(1.0, std::nullopt);
    CHECK(run.metrics_lines() == 0);
    run.write_metrics("{\"updates\":" + start + "}");
    const auto& former = run.former_metrics();
    CHECK(former ==
          (start == "1" ? std::nullopt : std::optional("run/metrics.jsonl." + std::to_string(std::stoi(start) - 1))));
  }
  CHECK(disk.read("run/metrics.jsonl.1") == "{\"updates\":1}\n");
  CHECK(disk.read("run/metrics.jsonl.2") == "{\"updates\":2}\n");
  CHECK(metrics() == "{\"updates\":3}\n");
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: a resume with missing metrics logs how many lines are lost") {
  const auto line = [](int updates, int env_steps) {
    return "{\"updates\":" + std::to_string(updates) + ",\"env_steps\":" + std::to_string(env_steps) + "}\n";
  };
  const std::string two = line(1, 10) + line(2, 20);
  struct Case {
    std::optional<std::string> before;
    std::string warning;
  };
  const std::string end =
      " of the 2 lines that there were at the checkpoint from which the run resumes, that of update "
      "2; the others are lost\n";
  const Case cases[] = {{std::nullopt, "is missing, so there are none" + end},
                        {"", "holds 0" + end},
                        {line(1, 10) + "{\"upd", "holds 1" + end},
                        {two, ""},
                        {two + line(3, 30), ""}};
  for (const Case& each : cases) {
    for (const bool counted : {false, true}) {  // true as in a deterministic run
      disk = MemoryDisk();
      const std::string path = counted ? "counted" : "run";
      disk.write_atomic(path + "/run.lock", std::string());
      disk.write_atomic(path + "/config.json", kConfig);
      if (each.before) disk.write_atomic(path + "/metrics.jsonl", *each.before);
      RunFolder run(disk, path, kConfig);
      const size_t logged = log().size();
      run.begin_metrics(1.0, counted ? RunFolder::ResumePoint{2, 20, 2} : RunFolder::ResumePoint{2, 20, {}, 2});
      const std::string lines = log().substr(logged);
      CHECK(lines.empty() == each.warning.empty());
      CHECK_MESSAGE(lines.find(each.warning) != std::string::npos, lines);
    }
  }
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: if metrics have only lines after the checkpoint, all are cut off") {
  disk.write_atomic("run/config.json", kConfig);
  disk.write_atomic("run/metrics.jsonl", std::string("{\"updates\":3,\"env_steps\":30}\n"));
  RunFolder run(disk, "run", kConfig);
  run.begin_metrics(1.0, RunFolder::ResumePoint{2, 20, 2});
  CHECK(metrics().empty());
  CHECK(run.metrics_lines() == 0);
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: each start writes a new TensorBoard file, with a restart event after a resume") {
  for (const bool resumed : {false, true}) {
    RunFolder run(disk, "run", kConfig);
    CHECK(run.resuming() == resumed);
    run.begin_metrics(7.0, resumed ? std::optional<RunFolder::ResumePoint>({1, 2048}) : std::nullopt);
    run.write_scalars(8.0, 4096, {{"x", 1}});
  }
  const std::string version = tfrecord(event_file_version(7.0)) + tfrecord(event_hparams(7.0, kHParams)),
                    scalar = tfrecord(event_scalars(8.0, 4096, {{"x", 1}}));
  CHECK(disk.read("run/" + event_file_name(7.0, 0)) == version + scalar);
  CHECK(disk.read("run/" + event_file_name(7.0, 1)) == version + tfrecord(event_restart(7.0, 2049)) + scalar);
}

TEST_CASE_FIXTURE(
    RunFolderFixture,
    "run_folder: the summary is replaced completely or not at all, and endpoints.json is removed at the end") {
  {
    RunFolder run(disk, "run", kConfig);
    run.write_endpoints("{}");
    run.write_summary("{\"a\":1}");
    disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 1});
    CHECK_THROWS_AS(run.write_summary("{\"a\":2}"), IoError);
    CHECK(disk.exists("run/endpoints.json"));
  }
  CHECK(disk.read("run/summary.json") == "{\"a\":1}\n");
  CHECK_FALSE(disk.exists("run/endpoints.json"));
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: if an old checkpoint cannot be removed, the new one is still saved") {
  RunFolder folder(disk, "run", kConfig);
  Checkpoint checkpoint;
  const auto save = [&](uint64_t updates) {
    checkpoint.updates = checkpoint.version.number = updates;
    folder.save_checkpoint(checkpoint, 1);
  };
  save(1);
  const uint64_t begun = disk.operations();
  save(2);
  const uint64_t last = disk.operations() - begun - 1;  // the last operation of a save is one of the removal
  disk.set_fault({.first = disk.operations() + last, .count = 1});
  save(3);
  disk.clear_fault();
  CHECK(folder.checkpoints().load_newest()->updates == 3);
  CHECK(log().find("; an old checkpoint is kept") != std::string::npos);
}
