// Scores of reward models against those of Hugging Face's transformers, through the files that transformers writes.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "models/lm/reward_model.h"
#include "runtime/base/file.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("reward_model: scores of Llama, Qwen2 and Qwen3 are those of transformers") {
  if (!python_has("transformers, torch, safetensors.torch")) {
    MESSAGE("skipped: ", test_python(), " has no packages transformers, torch and safetensors");
    return;
  }
  TempFolder folder;
  const ProgramResult made = run_program(test_python() + " tests/models/lm/scores_case.py " + folder.path() + " 2>&1");
  REQUIRE_MESSAGE(made.exit_code == 0, made.output);
  const std::vector<std::string> cases = posix_disk().list(folder.path());
  CHECK(cases.size() == 3);
  for (const std::string& name : cases) {
    CAPTURE(name);
    const Safetensors expected = read_safetensors(posix_disk(), (folder / name) + "/expected.safetensors");
    const auto prompt = expected.tensors.at("prompt").view<int32_t>(),
               ids = expected.tensors.at("answers").view<int32_t>(),
               lengths = expected.tensors.at("lengths").view<int32_t>();
    const auto should = expected.tensors.at("scores").view<float>();
    std::vector<std::vector<int32_t>> answers;
    const size_t width = ids.size() / lengths.size();
    for (size_t a = 0; a < lengths.size(); ++a) {
      const auto answer = ids.subspan(a * width, static_cast<size_t>(lengths[a]));
      answers.emplace_back(answer.begin(), answer.end());
    }
    const std::vector<float> is = RewardModel(posix_disk(), folder / name, 2).score(prompt, answers);
    REQUIRE(is.size() == should.size());
    for (size_t i = 0; i < is.size(); ++i) CHECK(std::abs(is[i] - should[i]) < 1e-4f);
    CHECK(std::ranges::any_of(should, [](float x) { return std::abs(x) > 0.1f; }));
  }
}
