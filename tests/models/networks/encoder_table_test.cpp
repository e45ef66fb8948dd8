// Tests every encoder from its description in the table, so a new encoder needs no change here.

#include "models/networks/encoder_table.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/networks/net_layout.h"
#include "models/networks/net_schema.h"
#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

const ArraySpec kObservations[] = {
    {"image", DType::u8, {96, 96, 3}},
    {"numbers", DType::f32, {4}},
    {"token", DType::i32, {3}},
};

Json value_of(const ObjectSetting& key);

// An object with all described keys.
Json object_of(std::span<const ObjectSetting> keys) {
  Json result = Json::object();
  for (const ObjectSetting& key : keys) result[std::string(key.setting.key)] = value_of(key);
  return result;
}

Json value_of(const ObjectSetting& key) {
  if (key.members != nullptr) return key.is_array ? Json::array({object_of(key.members())}) : object_of(key.members());
  const Setting& setting = key.setting;
  switch (setting.kind) {
    case Setting::Kind::integer: return static_cast<int64_t>(setting.low);
    case Setting::Kind::integers: return Json::array({static_cast<int64_t>(setting.low)});
    case Setting::Kind::text: return setting.choices.back();
    case Setting::Kind::object: return Json::object();
    default: FAIL("no value for a setting of this kind");
  }
  return {};
}

std::string refusal(const Json& net, const ArraySpec& observation) {
  EnvSpec env;
  env.id = "Made-up";
  env.observations = {observation};
  env.action.bins = {2};
  ModelConfig config;
  config.kind = "net";
  config.net = net.dump();
  try {
    net_plan(config, env);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// The error of the reader about these settings of an encoder, for each observation; "" if it accepts them.
std::vector<std::string> refusals_of_encoder(const Json& settings) {
  std::vector<std::string> result;
  for (const ArraySpec& observation : kObservations)
    result.push_back(refusal({{"encoders", {{"*", settings}}}}, observation));
  return result;
}

std::set<std::string> keys_of(std::span<const ObjectSetting> keys) {
  std::set<std::string> result;
  for (const ObjectSetting& key : keys) CHECK(result.emplace(key.setting.key).second);
  return result;
}

}  // namespace

TEST_CASE("encoder table: reader and schema accept every encoder with all its described keys") {
  const Json schema = net_schema()["properties"]["encoders"]["additionalProperties"];
  CHECK(schema["properties"]["kind"]["enum"] == Json(encoder_names()));
  CHECK(encoder_names().size() == encoder_kinds().size());
  for (const EncoderKind& kind : encoder_kinds()) {
    CAPTURE(kind.name);
    CHECK(&find_encoder(kind.name) == &kind);
    Json settings = object_of(kind.settings);
    for (const auto& [key, value] : settings.items()) CHECK(schema["properties"].contains(key));
    settings["kind"] = kind.name;
    const auto accepted = refusals_of_encoder(settings);
    CHECK(std::ranges::count(accepted, "") > 0);
    settings["xyzzy"] = 1;
    const auto refused = refusals_of_encoder(settings);
    for (size_t i = 0; i < accepted.size(); ++i)
      if (accepted[i].empty()) CHECK(refused[i].starts_with("model.net.encoders.*.xyzzy: unknown key"));
  }
}

TEST_CASE("encoder table: an encoder reads exactly the keys that it describes") {
  for (const EncoderKind& kind : encoder_kinds()) {
    CAPTURE(kind.name);
    bool built = false;
    for (const ArraySpec& observation : kObservations) {
      NetworkLayout layout;
      const Shape input = kind.numbers ? Shape{observation.shape.elements()} : observation.shape;
      LayerStack layers(layout, "encoder", input, TensorGroup::policy);
      const Json empty = Json::object();
      StrictObject settings(empty, "settings");
      try {
        kind.build(observation, settings, layers);
      } catch (const ConfigError&) {
        continue;
      }
      built = true;
      CHECK(std::set(settings.asked().begin(), settings.asked().end()) == keys_of(kind.settings));
    }
    CHECK(built);
  }
}

namespace {

// Whether a property of the schema agrees with this key of this kind.
bool describes(const Json& property, const EncoderKind& kind, const ObjectSetting& key) {
  const std::string text = property.at("description");
  if (text.find(kind.name) > text.find(':')) return false;
  const Json own = schema_of(key);
  for (const char* limit : {"type", "minimum", "maximum", "enum", "items", "maxItems"})
    if (property.value(limit, Json()) != own.value(limit, Json())) return false;
  if (property.contains("default")) return property["default"] == own["default"];
  return key.fallback.empty() ||
         text.find(std::string(key.fallback) + " for " + std::string(kind.name)) != std::string::npos;
}

}  // namespace

TEST_CASE("encoder table: the schema gives the limits and the default of every key") {
  const Json schema = encoder_schema();
  for (const EncoderKind& kind : encoder_kinds()) {
    for (const ObjectSetting& key : kind.settings) {
      CAPTURE(key.setting.key);
      const Json& property = schema["properties"][std::string(key.setting.key)];
      const Json meanings = property.contains("anyOf") ? property["anyOf"] : Json::array({property});
      CHECK(std::ranges::count_if(meanings, [&](const Json& each) { return describes(each, kind, key); }) == 1);
    }
  }
}

TEST_CASE("net_layout: the reader accepts all described keys together") {
  const Json net = object_of(net_keys());
  CHECK(refusal(net, kObservations[1]) == "");
  const Json schema = net_schema();
  for (const auto& [key, value] : net.items()) CHECK(schema["properties"].contains(key));
  Json wrong = net;
  wrong["xyzzy"] = 1;
  CHECK(refusal(wrong, kObservations[1]) ==
        "model.net.xyzzy: unknown key, model.net has: encoders, trunk, core, value_trunk");
}
