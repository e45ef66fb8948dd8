// The initial weights of a run (--init-from): RunFolder keeps them, also if the start fails at any point.
#include "runtime/base/errors.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/run_folder.h"
#include "tests/support/config_error.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const std::string kConfig = R"({"seed": 1})";

}  // namespace

TEST_CASE("run_folder: a killed start is resumed with its initial weights, or has changed nothing") {
  const auto weights_of = [](float x) {
    return Safetensors{{{"w", Array::of<float>({1}, {x})}}, {{"init_from", std::to_string(x)}}};
  };
  const auto is_kept = [](RunFolder& run, const Safetensors& weights) {
    const std::optional<Safetensors> kept = run.initial_weights();
    return kept && kept->tensors == weights.tensors && kept->metadata == weights.metadata;
  };
  const Safetensors given = weights_of(1), others = weights_of(2);
  for (const std::string before : {"nothing", "a run with new weights", "a run with other weights"})
    for (const auto kind : {DiskFault::Kind::crash, DiskFault::Kind::refuse, DiskFault::Kind::unsynced}) {
      CAPTURE(before);
      bool reached_end = false;
      for (uint64_t at = 0; !reached_end; ++at) {
        CAPTURE(at);
        MemoryDisk each;
        if (before == "a run with new weights") RunFolder(each, "run", kConfig);
        if (before == "a run with other weights") RunFolder(each, "run", kConfig, {}, &others);
        const auto files = [&] { return each.exists("run/config.json") ? each.list("run").size() : 0; };
        const size_t files_before = files();
        each.set_fault({kind, each.operations() + at, 1});
        reached_end = config_error_of([&] { RunFolder(each, "run", kConfig, {}, &given); }) == "no error";
        each.clear_fault();
        if (each.exists("run/config.json")) {
          // A resume uses the initial weights, or the start has not changed the run yet.
          RunFolder resumed(each, "run", kConfig);
          const bool as_before = before == "a run with new weights"     ? files() <= files_before + 1
                                 : before == "a run with other weights" ? is_kept(resumed, others)
                                                                        : false;
          CHECK((is_kept(resumed, given) || (!reached_end && as_before)));
        }
        RunFolder again(each, "run", kConfig, {}, &given);
        CHECK(is_kept(again, given));
      }
    }
}

TEST_CASE("run_folder: initial weights for a run with a checkpoint are only kept on request") {
  MemoryDisk disk;
  const Safetensors given{{{"w", Array::of<float>({1}, {1.0f})}}, {{"init_from", "a"}}};
  {
    RunFolder run(disk, "run", kConfig);
    run.save_checkpoint({}, 0);
  }
  RunFolder run(disk, "run", kConfig, {}, &given);
  CHECK_FALSE(run.initial_weights());
  run.keep_initial_weights(given);
  CHECK(run.initial_weights()->tensors == given.tensors);
}

TEST_CASE("run_folder: the error about an invalid init.json names the file and the entry") {
  MemoryDisk disk;
  struct Case {
    const char* text;
    const char* problem;
  };
  const Case cases[] = {
      {"{\n\"a\": \"\n\"}", "run/init.json:2:7: not valid JSON: "},
      {"", "run/init.json: is empty, expected a JSON value"},
      {"[]", "run/init.json: is not an object, expected what --init-from has written"},
      {R"({"xxh3": 7})", "run/init.json: xxh3 is not a string, expected what --init-from has written"},
      {R"({"xxh3": "1", "xxh3": "2"})", "run/init.json: xxh3: the key is there twice"},
  };
  for (const Case& each : cases) {
    disk.damage("run/init.json", each.text);
    const std::string line = config_error_of([&] { read_initial_source(disk, "run"); });
    CHECK_MESSAGE(line.starts_with(each.problem), line);
  }
}
