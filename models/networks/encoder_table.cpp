#include "models/networks/encoder_table.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/networks/conv.h"
#include "models/networks/embedding.h"
#include "models/networks/flat_mlp.h"
#include "models/networks/nature.h"
#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"

namespace troupe {

std::span<const EncoderKind> encoder_kinds() {
  static const EncoderKind kinds[] = {
      conv_encoder(),
      nature_encoder(),
      flat_mlp_encoder(),
      embedding_encoder(),
  };
  return kinds;
}

std::span<const std::string_view> encoder_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> result;
    std::ranges::transform(encoder_kinds(), std::back_inserter(result), &EncoderKind::name);
    return result;
  }();
  return names;
}

const EncoderKind& find_encoder(std::string_view name) {
  for (const EncoderKind& kind : encoder_kinds())
    if (kind.name == name) return kind;
  throw InvariantError("there is no encoder " + std::string(name));
}

std::string_view default_encoder(const ArraySpec& observation) {
  return observation.dtype == DType::u8 && observation.shape.rank() == 3 ? "conv" : "mlp";
}

const ObjectSetting& encoder_kind_key() {
  static const ObjectSetting key = optional_key(
      choice_key("kind", encoder_names(), "default: conv for images (uint8 of rank 3), mlp for everything else"));
  return key;
}

namespace {

// One meaning of a key: the kinds that share it, and the default of each.
struct Meaning {
  Json schema;  // without description and default
  std::string help;
  std::vector<std::pair<std::string, std::string>> defaults;  // by kind; empty = none
};

void add_meaning(std::vector<Meaning>& meanings, const EncoderKind& kind, const ObjectSetting& key) {
  Json schema = schema_of(key);
  schema.erase("description");
  schema.erase("default");
  const auto same = [&](const Meaning& each) { return each.schema == schema && each.help == key.setting.help; };
  auto found = std::ranges::find_if(meanings, same);
  if (found == meanings.end())
    found = meanings.insert(meanings.end(), {std::move(schema), std::string(key.setting.help), {}});
  found->defaults.emplace_back(kind.name, key.fallback);
}

// "conv, mlp: units of the fully connected layers; default [128] for conv, [64] for mlp".
Json schema_of(const Meaning& meaning) {
  std::string kinds, defaults;
  for (const auto& [kind, fallback] : meaning.defaults) {
    kinds += (kinds.empty() ? "" : ", ") + kind;
    if (!fallback.empty()) defaults += (defaults.empty() ? "; default " : ", ") + fallback + " for " + kind;
  }
  const std::string& first = meaning.defaults.front().second;
  const bool one_default =
      std::ranges::all_of(meaning.defaults, [&](const auto& each) { return each.second == first; });
  Json schema = {{"description", kinds + ": " + meaning.help + (one_default ? "" : defaults)}};
  if (one_default && !first.empty()) schema["default"] = Json::parse(first);
  schema.update(meaning.schema);
  return schema;
}

}  // namespace

Json encoder_schema() {
  const ObjectSetting& kind_key = encoder_kind_key();
  Json schema = schema_of("encoder of an observation", std::span(&kind_key, 1));
  std::vector<std::pair<std::string, std::vector<Meaning>>> keys;
  for (const EncoderKind& kind : encoder_kinds()) {
    for (const ObjectSetting& key : kind.settings) {
      auto found = std::ranges::find(keys, key.setting.key, &decltype(keys)::value_type::first);
      if (found == keys.end()) found = keys.insert(keys.end(), {std::string(key.setting.key), {}});
      add_meaning(found->second, kind, key);
    }
  }
  for (const auto& [key, meanings] : keys) {
    Json& member = schema["properties"][key];
    if (meanings.size() == 1) {
      member = schema_of(meanings.front());
      continue;
    }
    for (const Meaning& meaning : meanings) member["anyOf"].push_back(schema_of(meaning));
  }
  return schema;
}

}  // namespace troupe
