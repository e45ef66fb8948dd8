// Decoders against the same models of Hugging Face's transformers, through the files that transformers writes.

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/lm/decoder.h"
#include "runtime/base/file.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::vector<float> logits_of(const std::string& folder, const std::vector<int32_t>& ids) {
  const std::string path = folder + "/config.json";
  const LmShape shape = lm_shape_from_config(posix_disk().read(path), path);
  const Safetensors file = read_safetensors(posix_disk(), folder + "/model.safetensors");
  CHECK(file.tensors.size() == lm_tensors(shape).size());
  ParallelFor parallel(2);
  Decoder decoder(shape, parallel);
  decoder.load(bind_decoder<const float>(shape, [&](const std::string& name) {
    const auto found = file.tensors.find(name);
    return found == file.tensors.end() ? std::span<const float>() : found->second.view<float>();
  }));
  const auto tokens = static_cast<int64_t>(ids.size());
  KvStore store(shape, tokens);
  std::vector<float> hidden(static_cast<size_t>(tokens * shape.hidden));
  std::vector<float> logits(static_cast<size_t>(tokens * shape.vocabulary));
  const std::vector<LmSequence> sequences = {{.tokens = tokens}};
  decoder.forward({ids, sequences}, store, hidden);
  decoder.logits(hidden, logits);
  return logits;
}

}  // namespace

TEST_CASE("decoder: logits of Llama, Qwen2 and Qwen3 are those of transformers") {
  if (!python_has("transformers, torch, safetensors.torch")) {
    MESSAGE("skipped: ", test_python(), " has no packages transformers, torch and safetensors");
    return;
  }
  TempFolder folder;
  const ProgramResult made =
      run_program(test_python() + " tests/models/lm/transformers_case.py " + folder.path() + " 2>&1");
  REQUIRE_MESSAGE(made.exit_code == 0, made.output);
  const std::vector<std::string> cases = posix_disk().list(folder.path());
  CHECK(cases.size() == 7);
  for (const std::string& name : cases) {
    CAPTURE(name);
    const Safetensors expected = read_safetensors(posix_disk(), (folder / name) + "/expected.safetensors");
    const std::span<const int32_t> ids = expected.tensors.at("ids").view<int32_t>();
    const std::span<const float> should = expected.tensors.at("logits").view<float>();
    const std::vector<float> is = logits_of(folder / name, {ids.begin(), ids.end()});
    REQUIRE(is.size() == should.size());
    float worst = 0;
    for (size_t i = 0; i < is.size(); ++i) worst = std::max(worst, std::abs(is[i] - should[i]));
    CHECK(worst < 1e-4f);
    CHECK(std::ranges::any_of(should, [](float x) { return std::abs(x) > 0.1f; }));
  }
}
