// Adapters against the same decoder with the adapters merged into its weights: results, gradients, files.

#include "models/decoder/lora.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "models/decoder/token_log_probs.h"
#include "models/lm/hf_export.h"
#include "models/lm/lm_weights.h"
#include "models/lm/peft_folder.h"
#include "runtime/base/errors.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Passed {
  std::vector<float> log_probs;
  std::vector<float> gradients;  // laid out as the trained parameters
};

// Forward and backward of a packed group with fixed upstream gradients.
Passed pass(const LmModel& model, const WeightBlock& weights, int threads = 2) {
  const std::vector<LmSequence> sequences = group_sequences(6, {5, 1, 9});
  const std::vector<int32_t> ids = random_ids(model.shape, 21, 4);
  std::vector<int64_t> rows, labels;
  for (int64_t i = 0; i + 1 < 21; ++i) {
    rows.push_back(i);
    labels.push_back(ids[static_cast<size_t>(i) + 1]);
  }
  ParallelFor parallel(threads);
  Decoder decoder(model.shape, parallel);
  decoder.load(decoder_weights(model, weights));
  TokenLogProbs tokens(decoder, parallel, 7);
  Activations activations;
  std::vector<float> hidden(ids.size() * static_cast<size_t>(model.shape.hidden)), d_hidden(hidden.size());
  Passed result;
  result.log_probs.resize(rows.size());
  result.gradients.resize(weights.trained().size());
  const DecoderGradients gradients = decoder_gradients(model, weights, result.gradients);
  const std::vector<float> upstream = random_floats(static_cast<int64_t>(rows.size()), 8);
  decoder.forward_training({ids, sequences}, activations, hidden);
  tokens.forward(hidden, {rows, labels, 1.0}, result.log_probs, {});
  tokens.backward(hidden, {rows, labels, 1.0}, upstream, {}, d_hidden, gradients);
  decoder.backward({ids, sequences}, activations, d_hidden, gradients);
  return result;
}

std::span<const float> gradient_of(const WeightBlock& weights, const Passed& passed, const std::string& name) {
  const auto& tensors = weights.signature()->tensors;
  const auto at = static_cast<size_t>(std::ranges::find(tensors, name, &TensorSpec::name) - tensors.begin());
  REQUIRE(at < tensors.size());
  return std::span(passed.gradients)
      .subspan(weights.parameter_offset(at), static_cast<size_t>(tensors[at].shape.elements()));
}

// The largest difference, relative to the largest value.
double difference(std::span<const float> is, const std::vector<double>& should) {
  REQUIRE(is.size() == should.size());
  double worst = 0, largest = 1e-30;
  for (size_t i = 0; i < is.size(); ++i) {
    worst = std::max(worst, std::abs(is[i] - should[i]));
    largest = std::max(largest, std::abs(should[i]));
  }
  return worst / largest;
}

// With W' = W + s B A: dA = s B^T dW' and dB = s dW' A^T.
void check_gradients(const LmModel& model, const WeightBlock& adapters, const Passed& is, const WeightBlock& merged,
                     const Passed& should, int64_t layer, LmLinear linear) {
  const auto [inputs, outputs] = size_of(model.shape, linear);
  const std::string prefix = linear_prefix(layer, linear);
  CAPTURE(prefix);
  const int64_t rank = model.lora.rank;
  const std::span<const float> d = gradient_of(merged, should, prefix + "weight");
  const std::span<const float> a = adapters.floats(prefix + "lora_A.weight");
  const std::span<const float> b = adapters.floats(prefix + "lora_B.weight");
  std::vector<double> d_a(a.size()), d_b(b.size());
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t r = 0; r < rank; ++r)
      for (int64_t i = 0; i < inputs; ++i) {
        const double scaled = static_cast<double>(model.lora.scale()) * d[static_cast<size_t>(o * inputs + i)];
        d_a[static_cast<size_t>(r * inputs + i)] += scaled * b[static_cast<size_t>(o * rank + r)];
        d_b[static_cast<size_t>(o * rank + r)] += scaled * a[static_cast<size_t>(r * inputs + i)];
      }
  CHECK(difference(gradient_of(adapters, is, prefix + "lora_A.weight"), d_a) < 1e-4);
  CHECK(difference(gradient_of(adapters, is, prefix + "lora_B.weight"), d_b) < 1e-4);
}

std::string refusal(const char* text) {
  try {
    lora_from_config(text, "model.lora");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("lora: results and gradients are those of the merged weights") {
  for (const LmFamily family : kFamilies)
    for (uint64_t seed = 0; seed < 3; ++seed) {
      CAPTURE(name_of(family));
      CAPTURE(seed);
      const LmModel model = lora_model(tiny_shape(family, seed), 5, 3);
      WeightBlock adapters(lm_signature(model));
      fill_adapters(model, adapters, seed);
      WeightBlock merged(lm_signature(model.shape));
      merged.load(merge_adapters(model, adapters.save()));
      const Passed is = pass(model, adapters), should = pass(model.shape, merged);
      CHECK(difference(is.log_probs, {should.log_probs.begin(), should.log_probs.end()}) < 1e-4);
      for (int64_t layer = 0; layer < model.shape.layers; ++layer)
        for (size_t i = 0; i < kLmLinears; ++i)
          check_gradients(model, adapters, is, merged, should, layer, static_cast<LmLinear>(i));
    }
}

TEST_CASE("lora: only the chosen layers have adapters, and the others' weights no gradient") {
  LmModel model = lora_model(tiny_shape(LmFamily::llama, 2), 4, 1);
  model.lora.targets = {true, false, true, false, false, false, false};
  const Signature signature = lm_signature(model);
  CHECK(signature.tensors.size() == static_cast<size_t>(4 * model.shape.layers + 1));
  CHECK(signature.tensors.back().name == "frozen." + model.frozen->hash);
  CHECK(signature.tensors.back().group == TensorGroup::buffer);
  WeightBlock adapters(signature);
  begin_lm_weights(model, 7, adapters);
  const std::map<std::string, Array> before = model.frozen->weights.save();
  const Passed passed = pass(model, adapters);
  CHECK(std::ranges::any_of(passed.gradients, [](float x) { return x != 0; }));
  CHECK(model.frozen->weights.save() == before);
}

TEST_CASE("lora: new adapters, and a decoder without them, give the bits of the frozen model") {
  const LmModel model = lora_model(tiny_shape(LmFamily::qwen3, 2), 4, 1);
  WeightBlock adapters(lm_signature(model));
  begin_lm_weights(model, 7, adapters);
  const std::vector<float> frozen = pass(model.shape, model.frozen->weights).log_probs;
  CHECK(same_bits(pass(model, adapters).log_probs, frozen));

  fill_adapters(model, adapters, 3);
  const std::vector<int32_t> ids = random_ids(model.shape, 9, 4);
  const std::vector<LmSequence> sequences = {{.tokens = 9}};
  ParallelFor parallel(2);
  Decoder with(model.shape, parallel), without(model.shape, parallel);
  with.load(decoder_weights(model, adapters));
  without.load(decoder_weights(model.shape, model.frozen->weights));
  const auto hidden = [&](Decoder& decoder) {
    KvStore store(model.shape, 9);
    std::vector<float> result(ids.size() * static_cast<size_t>(model.shape.hidden));
    decoder.forward({ids, sequences}, store, result);
    return result;
  };
  const std::vector<float> adapted = hidden(with), plain = hidden(without);
  CHECK_FALSE(same_bits(adapted, plain));
  with.use_adapters(false);
  CHECK(same_bits(hidden(with), plain));
  with.use_adapters(true);
  CHECK(same_bits(hidden(with), adapted));
}

TEST_CASE("lora: threads do not change a bit") {
  const LmModel model = lora_model(tiny_shape(LmFamily::qwen2, 1), 3, 1);
  WeightBlock adapters(lm_signature(model));
  fill_adapters(model, adapters, 1);
  const Passed one = pass(model, adapters, 1), three = pass(model, adapters, 3);
  CHECK(same_bits(one.log_probs, three.log_probs));
  CHECK(same_bits(one.gradients, three.gradients));
}

TEST_CASE("lora: settings are read, and wrong ones refused with both values") {
  CHECK_FALSE(lora_from_config("{}", "model.lora").used());
  const LoraConfig lora = lora_from_config(R"({"rank": 8})", "model.lora");
  CHECK(lora.rank == 8);
  CHECK(lora.alpha == 16);
  CHECK(lora.has(LmLinear::query));
  CHECK(lora.has(LmLinear::value));
  CHECK_FALSE(lora.has(LmLinear::down));
  CHECK(refusal(R"({"rank": 0})") == "model.lora.rank: 0, expected a whole number from 1 to 1024");
  CHECK(refusal(R"({"alpha": 3})") == "model.lora.rank: is missing, expected a whole number from 1 to 1024");
  CHECK(refusal(R"({"rank": 2, "alpha": 0})") == "model.lora.alpha: 0, expected a number above 0, at most 1000000");
  CHECK(refusal(R"({"rank": 2, "r": 2})") == "model.lora.r: unknown key, expected rank, alpha or targets");
  CHECK(refusal(R"({"rank": 2, "targets": ["q_proj", "lm_head"]})") ==
        "model.lora.targets: \"lm_head\", expected a list of some of q_proj, k_proj, v_proj, o_proj, gate_proj, "
        "up_proj, down_proj");
  CHECK(refusal(R"({"rank": 2, "targets": ["q_proj", "q_proj"]})") ==
        "model.lora.targets: \"q_proj\", expected each layer once");
}

TEST_CASE("lora: adapters in a folder of PEFT are read again, and others are refused with both values") {
  const TempFolder folder;
  LmModel model = lora_model(tiny_shape(LmFamily::llama, 2), 2, 4.0);
  model.path = folder / "base";
  WeightBlock adapters(lm_signature(model));
  fill_adapters(model, adapters, 3);
  const std::map<std::string, Array> written = adapters.save();
  write_peft_adapters(posix_disk(), folder.path(), model, written);
  REQUIRE(is_peft_folder(posix_disk(), folder.path()));
  const auto read = [&](const LoraConfig& lora) {
    return read_peft_adapters(posix_disk(), folder.path(), lora, *adapters.signature()).tensors;
  };
  const std::map<std::string, Array> again = read(model.lora);
  CHECK(again.size() == written.size());
  for (const auto& [name, array] : written) CHECK_MESSAGE(again.at(name) == array, name);
  const auto refusal = [&](auto change) -> std::string {
    LoraConfig other = model.lora;
    change(other);
    try {
      read(other);
    } catch (const ConfigError& error) {
      return std::string(error.what()).substr(folder.path().size());
    }
    return "accepted";
  };
  CHECK(refusal([](LoraConfig& lora) { lora.alpha = 8; }) ==
        "/adapter_config.json: lora_alpha is 4.0, expected 8.0, the alpha of model.lora");
  CHECK(refusal([](LoraConfig& lora) { lora.rank = 3; }) ==
        "/adapter_config.json: r is 2, expected 3, the rank of model.lora");
  CHECK(refusal([](LoraConfig& lora) {
          lora.targets[0] = false;
        }).starts_with("/adapter_config.json: target_modules is "));
  CHECK(refusal([](LoraConfig& lora) { lora.rank = 0; }) ==
        "/adapter_config.json: has adapters, but the run has none; set model.lora");
}

TEST_CASE("lora: a folder with adapters says which model they were trained on, as far as its writer has") {
  const TempFolder folder;
  LmModel model = lora_model(tiny_shape(LmFamily::llama, 2), 2, 4.0);
  model.path = folder / "base";
  model.shape.rope_theta = 500;
  WeightBlock adapters(lm_signature(model));
  fill_adapters(model, adapters, 3);
  const std::string peft = folder / "adapters";
  std::filesystem::create_directories(peft);
  write_peft_adapters(posix_disk(), peft, model, adapters.save());
  Signature of_other = *adapters.signature();
  of_other.tensors.back().name = "frozen.of another model";
  const auto read = [&] { return read_peft_adapters(posix_disk(), peft, model.lora, of_other); };
  CHECK(read().tensors.contains("frozen." + model.frozen->hash));
  CHECK(read().base == model.shape);
  const std::string file = peft + "/adapter_model.safetensors";
  write_safetensors(posix_disk(), file, read_safetensors(posix_disk(), file).tensors, {{"format", "pt"}});
  CHECK(read().tensors.contains("frozen.of another model"));
  CHECK_FALSE(read().base);
  std::filesystem::create_directories(model.path);
  write_hf_model(posix_disk(), model.path, model.shape, {}, model.frozen->weights.save());
  CHECK(read().base == model.shape);
}
