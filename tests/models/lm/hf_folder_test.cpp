// Folders of pre-trained models: what is read, and what is refused in one line.

#include "models/lm/hf_folder.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include "models/lm/hf_export.h"
#include "models/lm/lm_config.h"
#include "models/lm/lm_weights.h"
#include "runtime/base/errors.h"
#include "tests/models/decoder/tiny_models.h"
#include "tests/models/lm/reward_models.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Tensors = std::map<std::string, Array>;

Tensors tensors_of(const LmShape& shape) {
  const TinyModel model(shape, 3);
  Tensors result;
  for (const LmTensor& tensor : lm_tensors(shape))
    result[tensor.name] = Array::of<float>(tensor.shape, model.values.at(tensor.name));
  return result;
}

Tensors read_back(const std::string& folder) {
  const HfFolder model(posix_disk(), folder);
  WeightBlock weights(lm_signature(model.shape()));
  model.read([&](const std::string& name) { return weights.floats(name); });
  return weights.save();
}

std::string refusal(const std::string& folder) {
  try {
    read_back(folder);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// A folder with a model of the Llama family whose tensors a test changes.
struct Fixture {
  TempFolder folder;
  LmShape shape = tiny_shape(LmFamily::llama, 4);
  Tensors tensors = tensors_of(shape);
  std::string file = folder / "model.safetensors";

  std::string refused(const std::string& after_setting) {
    write_hf_model(posix_disk(), folder.path(), shape, {}, tensors);
    const std::string what = refusal(folder.path()), begin = "model.path: " + folder.path() + after_setting;
    return what.starts_with(begin) ? what.substr(begin.size()) : what;
  }
};

template <class T, class Convert>
Array converted(const Array& array, const Convert& convert) {
  std::vector<T> result;
  for (const float x : array.view<float>()) result.push_back(convert(x));
  return Array::of<T>(array.shape(), result);
}

}  // namespace

TEST_CASE("hf_folder: a written model is read with the same bits and the same shape") {
  for (const LmFamily family : kFamilies)
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const TempFolder folder;
      const LmShape shape = tiny_shape(family, seed);
      const Tensors tensors = tensors_of(shape);
      write_hf_model(posix_disk(), folder.path(), shape, {.bos = 1, .pad = 0, .ends = {2}}, tensors);
      CHECK(HfFolder(posix_disk(), folder.path()).shape() == shape);
      CHECK(read_back(folder.path()) == tensors);
      CHECK(lm_shape_from_config(lm_config_text(shape), "config.json") == shape);
    }
}

TEST_CASE("hf_folder: float16 and bfloat16 become float32") {
  Fixture f;
  const std::string name = "model.norm.weight";
  const Array half = converted<Float16>(f.tensors.at(name), to_float16);
  const Array brain = converted<BFloat16>(f.tensors.at(name), to_bfloat16);
  for (const Array& stored : {half, brain}) {
    f.tensors[name] = stored;
    write_hf_model(posix_disk(), f.folder.path(), f.shape, {}, f.tensors);
    const Tensors read = read_back(f.folder.path());
    const std::span<const float> values = read.at(name).view<float>();
    for (size_t i = 0; i < values.size(); ++i)
      CHECK(values[i] ==
            (stored.dtype() == DType::f16 ? to_float(half.view<Float16>()[i]) : to_float(brain.view<BFloat16>()[i])));
  }
}

TEST_CASE("hf_folder: shards are read by their index, which must be right") {
  Fixture f;
  write_hf_model(posix_disk(), f.folder.path(), f.shape, {}, f.tensors);
  posix_disk().remove(f.file);
  Tensors first, second;
  std::string map;
  for (const auto& [name, array] : f.tensors) {
    const bool early = first.size() <= second.size();
    (early ? first : second)[name] = array;
    map += (map.empty() ? "\"" : ", \"") + name + (early ? "\": \"a.safetensors\"" : "\": \"b.safetensors\"");
  }
  write_safetensors(posix_disk(), f.folder / "a.safetensors", first);
  write_safetensors(posix_disk(), f.folder / "b.safetensors", second);
  const std::string index = f.folder / "model.safetensors.index.json", begin = "model.path: " + f.folder.path();
  const auto write_index = [&](const std::string& entries) {
    posix_disk().write_atomic(index, R"({"metadata": {}, "weight_map": {)" + entries + "}}");
  };
  write_index(map);
  CHECK(read_back(f.folder.path()) == f.tensors);
  write_index(map + R"(, "other": "a.safetensors")");
  CHECK(refusal(f.folder.path()) ==
        begin + "/a.safetensors: has no tensor other, which model.safetensors.index.json says is in it");
  write_index(map + R"(, "other": "../a.safetensors")");
  CHECK(refusal(f.folder.path()) == "model.path: " + index +
                                        ": weight_map.other: \"../a.safetensors\", expected the "
                                        "name of a file in the folder");
  write_index(map + R"(, "other": "a\u0000.safetensors")");
  CHECK(refusal(f.folder.path()) == "model.path: " + index +
                                        ": weight_map.other: \"a\\u0000.safetensors\", expected the name of a file in "
                                        "the folder");
  write_index("");
  CHECK(refusal(f.folder.path()).find("weight_map is empty") != std::string::npos);
  write_index(map);
  posix_disk().remove(f.folder / "b.safetensors");
  CHECK(refusal(f.folder.path()).starts_with(begin + "/b.safetensors: "));
}

TEST_CASE("hf_folder: tensors that do not fit config.json are refused with both values") {
  Fixture f;
  const std::string norm = "model.norm.weight", width = std::to_string(f.shape.hidden);
  const Array good = f.tensors.at(norm);
  f.tensors.erase(norm);
  CHECK(f.refused(": ") ==
        "tensor model.norm.weight is missing, config.json expects it with the shape [" + width + "]");
  f.tensors[norm] = Array(DType::f32, {3});
  CHECK(f.refused("/model.safetensors: ") ==
        "tensor model.norm.weight is float32 [3], expected the shape [" + width + "] of config.json");
  f.tensors[norm] = Array(DType::i32, good.shape());
  CHECK(f.refused("/model.safetensors: ") ==
        "tensor model.norm.weight is int32 [" + width + "], expected float32, float16 or bfloat16");
  f.tensors[norm] = good;
  f.tensors["model.extra"] = Array(DType::f32, {2});
  CHECK(f.refused("/model.safetensors: ") ==
        "tensor model.extra float32 [2] is not one of the model that config.json describes (model_type llama)");
  f.tensors.erase("model.extra");
  f.tensors[norm] = good.clone();
  f.tensors[norm].mutable_view<float>()[1] = std::numeric_limits<float>::infinity();
  CHECK(f.refused("/model.safetensors: ") == "tensor model.norm.weight holds a number that is not finite");
}

TEST_CASE("hf_folder: an output layer beside a tied embedding must be equal to it") {
  for (const bool half : {false, true}) {
    Fixture f;
    f.shape.tied_embeddings = true;
    f.tensors = tensors_of(f.shape);
    const std::string embedding = "model.embed_tokens.weight";
    if (half) f.tensors[embedding] = converted<BFloat16>(f.tensors.at(embedding), to_bfloat16);
    Tensors& tensors = f.tensors;
    tensors["lm_head.weight"] =
        half ? converted<float>(tensors_of(f.shape).at(embedding), [](float x) { return to_float(to_bfloat16(x)); })
             : tensors.at(embedding).clone();
    CHECK(f.refused("/model.safetensors: ") == "accepted");
    std::span<float> output = tensors["lm_head.weight"].mutable_view<float>();
    output.back() += 0.5f;
    CHECK(f.refused("/model.safetensors: ") ==
          "tensor lm_head.weight is not equal to model.embed_tokens.weight, but config.json says tie_word_embeddings "
          "true; set it to false, or remove the tensor");
    tensors["lm_head.weight"] = Array(DType::f32, {3});
    CHECK(f.refused("/model.safetensors: ").starts_with("tensor lm_head.weight is float32 [3], not like the "));
  }
}

TEST_CASE("hf_folder: adapters beside the model are refused") {
  Fixture f;
  posix_disk().write_atomic(f.folder / "adapter_config.json", "{}");
  CHECK(f.refused("/adapter_config.json: ") ==
        "the folder has adapters beside the model, which transformers adds to it; merge them, or move the file");
}

TEST_CASE("hf_folder: a model with another head is refused by its architecture") {
  const TempFolder folder;
  CHECK(hf_head(posix_disk(), folder.path()) == HfHead::tokens);
  TinyRewardModel(tiny_shape(LmFamily::qwen3, 4), 3).write(folder.path());
  CHECK(refusal(folder.path()) == "model.path: " + (folder / "config.json") +
                                      R"(: architectures: ["Qwen3ForSequenceClassification"], expected )"
                                      R"(["Qwen3ForCausalLM"], a model that gives the next token)");
  CHECK(hf_head(posix_disk(), folder.path()) == HfHead::score);
}

TEST_CASE("hf_folder: missing and truncated files are refused") {
  Fixture f;
  CHECK(refusal("/nowhere") ==
        "model.path: /nowhere: there is no such folder, expected one with config.json and model.safetensors");
  CHECK(refusal(std::string("/now\0here", 9)) ==
        "model.path: /now\\x00here: has a NUL character, which no folder's name has");
  CHECK(refusal("/nowhere/smollm2").ends_with("; tools/fetch_smollm2 makes that of SmolLM2-135M"));
  CHECK(refusal(f.folder.path()).starts_with("model.path: " + f.folder.path() + "/config.json: "));
  write_hf_model(posix_disk(), f.folder.path(), f.shape, {}, f.tensors);
  const auto bytes = std::filesystem::file_size(f.file);
  for (const auto left : {bytes - 1, bytes / 2, uintmax_t{9}, uintmax_t{7}, uintmax_t{0}}) {
    std::filesystem::resize_file(f.file, left);
    CAPTURE(left);
    CHECK(refusal(f.folder.path()).starts_with("model.path: " + f.file + ": not a valid safetensors file: "));
  }
  std::filesystem::remove(f.file);
  CHECK(refusal(f.folder.path()) == "model.path: " + f.folder.path() +
                                        ": has no weights, expected model.safetensors or model.safetensors.index.json");
}
