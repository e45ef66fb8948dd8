#include "models/lm/hf_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr uint64_t kMostIndexBytes = 64 << 20;
constexpr uint64_t kChunkBytes = 8 << 20;  // read at once

std::string text_of(const SafetensorsEntry& entry) {
  return std::string(name_of(entry.dtype)) + ' ' + entry.shape.text();
}

template <class T>
void convert(const std::string& bytes, float* to) {
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T x;
    std::memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, float>)
      to[i] = x;
    else
      to[i] = to_float(x);
  }
}

void convert(DType dtype, const std::string& bytes, float* to) {
  switch (dtype) {
    case DType::f32: return convert<float>(bytes, to);
    case DType::f16: return convert<Float16>(bytes, to);
    case DType::bf16: return convert<BFloat16>(bytes, to);
    default: TROUPE_CHECK(false, static_cast<int>(dtype));
  }
}

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kOutput = "lm_head.weight";

bool is_number(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

constexpr std::string_view kOfScores = "ForSequenceClassification", kOfTokens = "ForCausalLM";

std::string class_of(LmFamily family, std::string_view head) {
  const auto with_head = [&](const char* name) { return name + std::string(head); };
  switch (family) {
    case LmFamily::llama: return with_head("Llama");
    case LmFamily::qwen2: return with_head("Qwen2");
    case LmFamily::qwen3: return with_head("Qwen3");
  }
  TROUPE_CHECK(false, "family", static_cast<int>(family));
  return "";
}

// Whether a config.json names a class with this head.
bool has_class(const Json& config, std::string_view head) {
  const Json classes = config.is_object() ? config.value("architectures", Json()) : Json();
  return classes.is_array() && std::ranges::any_of(classes, [&](const Json& name) {
           return name.is_string() && name.get_ref<const std::string&>().ends_with(head);
         });
}

// Throws ConfigError that begins with `source` if a config.json says that the model gives something else than tokens.
void require_tokens(const std::string& text, LmFamily family, const std::string& source) {
  const Json config = parse_strict(text, source), classes = config.value("architectures", Json());
  if (!classes.is_array() || classes.empty() || has_class(config, kOfTokens)) return;
  throw ConfigError(source + ": architectures: " + printable(classes.dump(), 200) + ", expected " +
                    Json::array({class_of(family, kOfTokens)}).dump() + ", a model that gives the next token");
}

// Throws ConfigError that begins with `source` unless a config.json says that the model gives one score.
void require_one_score(const std::string& text, LmFamily family, const std::string& source) {
  const Json config = parse_strict(text, source);
  const Json wanted = Json::array({class_of(family, kOfScores)});
  const Json architectures = config.value("architectures", Json());
  if (architectures != wanted)
    throw ConfigError(
        source + ": architectures: " + (architectures.is_null() ? "is missing" : printable(architectures.dump(), 200)) +
        ", expected " + wanted.dump() + ", a model that gives a text a score");
  const Json names = config.value("id2label", Json()), number = config.value("num_labels", Json());
  if (!names.is_null() && !names.is_object())
    throw ConfigError(source + ": id2label: " + printable(names.dump(), 200) + ", expected an object with one label");
  const Json labels = names.is_object() ? Json(names.size()) : number.is_null() ? Json(2) : number;
  if (labels != 1)
    throw ConfigError(
        source + ": " + (names.is_object() ? "id2label" : "num_labels") + ": " + printable(labels.dump()) + " labels" +
        (names.is_object() || !number.is_null() ? "" : ", the default of transformers") + ", expected 1, the score");
}

}  // namespace

bool is_hf_folder(const Disk& disk, const std::string& folder) {
  return disk.exists(folder + "/config.json") &&
         (disk.exists(folder + '/' + kWeights) || disk.exists(folder + '/' + kIndex));
}

HfHead hf_head(const Disk& disk, const std::string& folder) try {
  const Json config = Json::parse(disk.read(folder + "/config.json"), nullptr, false);
  return has_class(config, kOfScores) ? HfHead::score : HfHead::tokens;
} catch (const IoError&) {
  return HfHead::tokens;
}

void HfFolder::refuse(const std::string& what) const { throw ConfigError(setting_ + ": " + what); }

HfFolder::HfFolder(const Disk& disk, const std::string& folder, const std::string& setting, HfHead head)
    : disk_(disk), folder_(folder), setting_(setting), head_(head) {
  if (folder_.find('\0') != std::string::npos)
    refuse(printable(folder_, 200) + ": has a NUL character, which no folder's name has");
  if (!disk_.exists(folder_)) {
    const bool smollm2 = folder_.find("smollm2") != std::string::npos;
    const bool example = folder_.find("rlhf_reward") != std::string::npos;
    refuse(printable(folder_, 200) + ": there is no such folder, expected one with config.json and model.safetensors" +
           (smollm2   ? "; tools/fetch_smollm2 makes that of SmolLM2-135M"
            : example ? "; `python -m troupe.reward_model --example` makes that of configs/tokens/rlhf.json"
                      : ""));
  }
  if (const std::string adapters = folder_ + "/adapter_config.json"; disk_.exists(adapters))
    refuse(printable(adapters, 200) + ": the folder has adapters beside the model, which transformers adds to it; " +
           "merge them, or move the file");
  const std::string source = setting_ + ": " + printable(folder_ + "/config.json", 200);
  const std::string config = read_text("config.json", kMaxReadBytes);
  shape_ = lm_shape_from_config(config, source);
  if (head_ == HfHead::score) {
    require_one_score(config, shape_.family, source);
    shape_.tied_embeddings = true;
  } else {
    require_tokens(config, shape_.family, source);
  }
  try {
    read_headers();
  } catch (const IoError& error) {
    refuse(error.what());
  }
  check_tensors();
}

std::string HfFolder::read_text(const std::string& file, uint64_t most) const {
  try {
    return disk_.read(folder_ + '/' + file, most);
  } catch (const IoError& error) {
    refuse(error.what());
  }
}

// Tensor -> shard. Empty if the weights are in one file.
std::map<std::string, std::string> HfFolder::read_index() const {
  std::map<std::string, std::string> result;
  if (disk_.exists(folder_ + '/' + kWeights)) return result;
  if (!disk_.exists(folder_ + '/' + kIndex))
    refuse(printable(folder_, 200) + ": has no weights, expected " + kWeights + " or " + kIndex);
  const std::string source = setting_ + ": " + printable(folder_, 200) + '/' + kIndex;
  const Json index = parse_strict(read_text(kIndex, kMostIndexBytes), source);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw ConfigError(source + ": has no object weight_map, expected one that names the file of each tensor");
  for (const auto& [name, file] : index["weight_map"].items()) {
    const std::string text = file.is_string() ? file.get<std::string>() : "";
    if (text.empty() || text.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
      throw ConfigError(source + ": weight_map." + printable(name) + ": " + printable(file.dump()) +
                        ", expected the name of a file in the folder");
    result[name] = text;
  }
  if (result.empty()) throw ConfigError(source + ": weight_map is empty, expected the file of each tensor");
  return result;
}

void HfFolder::read_headers() {
  const std::map<std::string, std::string> index = read_index();
  if (index.empty()) return add_shard(kWeights, index);
  std::set<std::string> shards;
  for (const auto& [name, file] : index) shards.insert(file);
  for (const std::string& shard : shards) add_shard(shard, index);
  for (const auto& [name, file] : index)
    if (!tensors_.contains(name))
      refuse(folder_ + '/' + file + ": has no tensor " + printable(name) + ", which " + kIndex + " says is in it");
}

void HfFolder::add_shard(const std::string& name, const std::map<std::string, std::string>& index) {
  const std::string path = folder_ + '/' + name;
  for (SafetensorsEntry& entry : read_safetensors_entries(*disk_.open_read(path), path)) {
    const auto listed = index.find(entry.name);
    if (!index.empty() && (listed == index.end() || listed->second != name))
      refuse(path + ": tensor " + printable(entry.name) + " is in this file, but " + kIndex + " names " +
             (listed == index.end() ? "no file" : listed->second) + " for it");
    const std::string tensor = entry.name;
    tensors_[tensor] = {path, std::move(entry)};
  }
}

std::vector<LmTensor> HfFolder::tensors() const {
  std::vector<LmTensor> result = lm_tensors(shape_);
  if (head_ == HfHead::score) result.push_back({kScoreWeight, {1, shape_.hidden}});
  return result;
}

// Tensors that are not read: buffers of old versions, and an output layer where there is none or the embedding is used.
bool HfFolder::is_ignored(const std::string& name) const {
  return name.ends_with(".rotary_emb.inv_freq") || (shape_.tied_embeddings && name == kOutput);
}

void HfFolder::check_tensors() const {
  std::set<std::string> known;
  for (const LmTensor& tensor : tensors()) {
    known.insert(tensor.name);
    const auto found = tensors_.find(tensor.name);
    if (found == tensors_.end())
      refuse(folder_ + ": tensor " + tensor.name + " is missing, config.json expects it with the shape " +
             tensor.shape.text());
    const auto& [file, entry] = found->second;
    const std::string what = file + ": tensor " + entry.name + " is " + text_of(entry) + ", expected ";
    if (!(entry.shape == tensor.shape)) refuse(what + "the shape " + tensor.shape.text() + " of config.json");
    if (!is_number(entry.dtype)) refuse(what + "float32, float16 or bfloat16");
  }
  for (const auto& [name, source] : tensors_)
    if (!known.contains(name) && !is_ignored(name))
      refuse(source.file + ": tensor " + printable(name) + ' ' + text_of(source.entry) +
             " is not one of the model that config.json describes (model_type " + std::string(name_of(shape_.family)) +
             ")");
  if (head_ == HfHead::tokens) check_ignored();
}

// transformers computes with an output layer that differs from the embedding, also where they are tied.
void HfFolder::check_ignored() const try {
  const auto output = shape_.tied_embeddings ? tensors_.find(kOutput) : tensors_.end();
  if (output == tensors_.end()) return;
  const Source &embedding = tensors_.at(kEmbedding), &other = output->second;
  const auto refuse_other = [&](const std::string& how) {
    refuse(other.file + ": tensor " + kOutput + ' ' + how + ' ' + kEmbedding +
           ", but config.json says tie_word_embeddings true; set it to false, or remove the tensor");
  };
  if (!(other.entry.shape == embedding.entry.shape) || !is_number(other.entry.dtype))
    refuse_other("is " + text_of(other.entry) + ", not like the " + text_of(embedding.entry) + " of");
  const auto count = static_cast<uint64_t>(embedding.entry.shape.elements());
  for (uint64_t done = 0; done < count; done += kChunkBytes / sizeof(float)) {
    const uint64_t part = std::min<uint64_t>(kChunkBytes / sizeof(float), count - done);
    if (numbers(embedding, done, part) != numbers(other, done, part)) refuse_other("is not equal to");
  }
} catch (const IoError& error) {
  refuse(error.what());
}

std::vector<float> HfFolder::numbers(const Source& source, uint64_t first, uint64_t count) const {
  const uint64_t size = size_of(source.entry.dtype);
  const std::string bytes = disk_.open_read(source.file)->read(source.entry.offset + first * size, count * size);
  if (bytes.size() != count * size) refuse(source.file + ": truncated: tensor " + source.entry.name + " is not whole");
  std::vector<float> result(count);
  convert(source.entry.dtype, bytes, result.data());
  return result;
}

void HfFolder::read(const std::function<std::span<float>(const std::string& name)>& place) const try {
  std::map<std::string, std::unique_ptr<ReadFile>> files;
  for (const LmTensor& tensor : tensors()) {
    const Source& source = tensors_.at(tensor.name);
    const auto& [path, entry] = source;
    std::unique_ptr<ReadFile>& file = files[path];
    if (!file) file = disk_.open_read(path);
    const std::span<float> to = place(tensor.name);
    TROUPE_CHECK(static_cast<int64_t>(to.size()) == tensor.shape.elements(), tensor.name, to.size());
    const uint64_t size = size_of(entry.dtype);
    for (uint64_t done = 0; done < entry.bytes; done += kChunkBytes) {
      const uint64_t count = std::min(kChunkBytes, entry.bytes - done);
      const std::string bytes = file->read(entry.offset + done, count);
      if (bytes.size() != count)
        refuse(path + ": truncated: tensor " + entry.name + " has " + std::to_string(done + bytes.size()) + " of its " +
               std::to_string(entry.bytes) + " bytes");
      const std::span<float> numbers = to.subspan(done / size, count / size);
      convert(entry.dtype, bytes, numbers.data());
      if (!std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); }))
        refuse(path + ": tensor " + entry.name + " holds a number that is not finite");
    }
  }
} catch (const IoError& error) {
  refuse(error.what());
}

}  // namespace troupe
