// Decoders against the same models of Hugging Face's transformers, through the files that transformers writes.

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/decoder/decoder.h"
#include "models/lm/hf_folder.h"
#include "models/lm/lm_weights.h"
#include "runtime/base/file.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::vector<float> logits_of(const std::string& folder, const std::vector<int32_t>& ids) {
  const HfFolder model(posix_disk(), folder);
  const LmShape& shape = model.shape();
  WeightBlock weights(lm_signature(shape));
  model.read([&](const std::string& name) { return weights.floats(name); });
  ParallelFor parallel(2);
  Decoder decoder(shape, parallel);
  decoder.load(decoder_weights(shape, weights));
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
  CHECK(cases.size() == 9);
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

TEST_CASE("decoder: SmolLM2 has the logits and the greedy tokens of transformers") {
  const char* given = ::getenv("TROUPE_SMOLLM2");
  const char* home = ::getenv("HOME");
  const std::string model =
      given != nullptr ? given : std::string(home != nullptr ? home : "") + "/.cache/troupe/smollm2";
  if (!posix_disk().exists(model + "/model.safetensors") || !python_has("transformers, torch, safetensors.torch")) {
    MESSAGE("skipped: needs ", model, " (tools/fetch_smollm2) and transformers, torch and safetensors in ",
            test_python());
    return;
  }
  const TempFolder folder;
  const std::string file = folder / "expected.safetensors";
  const ProgramResult made =
      run_program(test_python() + " tests/models/lm/smollm2_case.py " + model + ' ' + file + " 2>&1");
  REQUIRE_MESSAGE(made.exit_code == 0, made.output);
  const Safetensors expected = read_safetensors(posix_disk(), file);
  for (const std::string number : {"0", "1"}) {
    const std::span<const int32_t> ids = expected.tensors.at("ids_" + number).view<int32_t>();
    const std::span<const float> should = expected.tensors.at("logits_" + number).view<float>();
    const auto prompt = static_cast<size_t>(expected.tensors.at("prompt_" + number).view<int32_t>()[0]);
    const std::vector<float> is = logits_of(model, {ids.begin(), ids.end()});
    REQUIRE(is.size() == should.size());
    // The logits reach 38, so a bound relative to them: the float32 of transformers is as far from float64 as ours.
    float worst = 0, largest = 0;
    for (size_t i = 0; i < is.size(); ++i) {
      worst = std::max(worst, std::abs(is[i] - should[i]));
      largest = std::max(largest, std::abs(should[i]));
    }
    CHECK(worst < 1e-5f * largest);
    const size_t vocabulary = is.size() / ids.size();
    CHECK(ids.size() > prompt);
    for (size_t t = prompt; t < ids.size(); ++t) {
      const auto row = std::span(is).subspan((t - 1) * vocabulary, vocabulary);
      CHECK(std::ranges::max_element(row) - row.begin() == ids[t]);
    }
  }
}
