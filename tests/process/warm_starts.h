#pragma once
// Runs that begin with the weights of other runs.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "runtime/base/crc32c.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

namespace troupe::test {

inline Words updates(int count) {
  return set({"stop.env_steps=0", "stop.updates=" + std::to_string(count), "checkpoint.every_updates=1",
              "checkpoint.keep=0", "trainer.lr_schedule=constant"});
}

inline Words from(const std::string& source) { return {"--init-from", source}; }

inline CommandLine train(const std::string& folder, const Words& more) { return CommandLine(train_line(folder, more)); }

inline std::string model_of(const std::string& folder, uint64_t step) {
  return checkpoint_folder(folder, step) + "/model.safetensors";
}

// Checks that `train` ends with exit code 2 and one line on stderr, which is returned, and makes no run folder.
inline std::string refusal(const std::string& folder, const Words& more) {
  const bool before = std::filesystem::exists(folder);
  const CommandLine refused = train(folder, more);
  CHECK(refused.exit_code == 2);
  CHECK(refused.out == "");
  CHECK(std::ranges::count(refused.err, '\n') == 1);
  CHECK(std::filesystem::exists(folder) == before);
  return refused.err;
}

inline std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

// Writes state.json with the CRC that matches its content.
inline void write_state(const std::string& checkpoint, Json state) {
  state.erase("crc32c");
  state["crc32c"] = hex(crc32c(state.dump()));
  std::ofstream(checkpoint + "/state.json") << state.dump(2) << '\n';
}

// A run of three updates with a checkpoint after each. It is trained once, and each test case has a copy.
struct Trained {
  Trained() { REQUIRE(train(run, updates(3)).exit_code == 0); }
  TempFolder folder;
  std::string run = folder / "former";
};

struct Former {
  Former() {
    static const Trained trained;
    std::filesystem::copy(trained.run, run, std::filesystem::copy_options::recursive);
  }
  TempFolder folder;
  std::string run = folder / "former";
};

}  // namespace troupe::test
