#include "models/networks/net_schema.h"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/networks/encoders/encoder_table.h"
#include "runtime/base/strict_json.h"
#include "runtime/config/setting_json.h"

namespace troupe {
namespace {

using Kind = Setting::Kind;

constexpr double kMostUnits = 65536, kMostPixels = 1024, kMostValues = 1e7;

struct Property {
  Setting setting;
  const char* fallback;  // JSON; nullptr when there is none, or none that counts for every kind
};

constexpr Setting integer(std::string_view key, double low, double high, std::string_view help) {
  return {.key = key, .kind = Kind::integer, .low = low, .high = high, .help = help};
}
constexpr Setting units(std::string_view key, std::string_view help) {
  return {.key = key, .kind = Kind::integers, .low = 1, .high = kMostUnits, .help = help};
}
constexpr Setting choice(std::string_view key, std::span<const std::string_view> choices, std::string_view help) {
  return {.key = key, .kind = Kind::text, .choices = choices, .help = help};
}

Json object_of(std::string_view description, std::span<const Property> properties) {
  Json schema = {{"description", description}, {"type", "object"}, {"additionalProperties", false}};
  Json& members = schema["properties"] = Json::object();
  for (const Property& each : properties) {
    Json& member = members[std::string(each.setting.key)];
    member = setting_schema(each.setting, each.fallback == nullptr ? "null" : each.fallback);
    if (each.fallback == nullptr) member.erase("default");
  }
  return schema;
}

Json layer_schema() {
  const std::array<Property, 4> properties = {{
      {integer("channels", 1, kMostUnits, "output channels"), nullptr},
      {integer("kernel", 1, kMostPixels, "height and width of the kernel"), nullptr},
      {integer("stride", 1, kMostPixels, "step of the kernel"), "1"},
      {integer("padding", 0, kMostPixels, "zeros added at each side"), "0"},
  }};
  Json schema = object_of("a convolution", properties);
  schema["required"] = {"channels", "kernel"};
  return schema;
}

// One object with the settings of all kinds.
Json encoder_schema() {
  const std::vector<std::string_view> kinds = encoder_names();
  const std::array<Property, 5> properties = {{
      {choice("kind", kinds, "default: conv for images (uint8 of rank 3), mlp for everything else"), nullptr},
      {units("hidden", "conv, mlp: units of the fully connected layers; default [128] for conv, [64] for mlp"),
       nullptr},
      {choice("order", kWords<"auto", "chw", "hwc">, "conv, nature: where the channels of the image are"), "\"auto\""},
      {integer("values", 1, kMostValues, "embedding: how many values there are, from 0"), nullptr},
      {integer("size", 1, kMostUnits, "embedding: length of the vector of a value"), "16"},
  }};
  Json schema = object_of("encoder of an observation", properties);
  schema["properties"]["layers"] = {
      {"description", "conv: the convolutions; by default as many as it takes to shrink the image to at most 4 x 4"},
      {"type", "array"},
      {"maxItems", kMaxItems},
      {"items", layer_schema()}};
  return schema;
}

Json core_schema() {
  const std::array<Property, 2> properties = {{
      {choice("kind", kWords<"none", "lstm", "gru">, "the recurrent core"), "\"none\""},
      {integer("size", 1, kMostUnits, "lstm, gru: units"), "64"},
  }};
  return object_of("recurrent core behind the trunk", properties);
}

}  // namespace

Json net_schema() {
  const std::array<Property, 2> properties = {{
      {units("trunk", "units of the layers that read the outputs of all encoders"), "[64]"},
      {units("value_trunk", "units of separate layers for the value; by default the policy's layers serve both"),
       nullptr},
  }};
  Json schema = object_of("kind net: encoders by observation, trunk, core and value_trunk", properties);
  schema["properties"]["encoders"] = {
      {"description", "an encoder for each observation; * stands for those that are not named"},
      {"type", "object"},
      {"additionalProperties", encoder_schema()}};
  schema["properties"]["core"] = core_schema();
  return schema;
}

}  // namespace troupe
