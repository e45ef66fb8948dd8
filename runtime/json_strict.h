#pragma once
// JSON text from outside, read strictly. For source files that may include nlohmann/json.hpp; no header of ours includes this.

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// The value in `text`. Throws std::runtime_error with a short cause when it is not JSON or an object holds a key twice
// (nlohmann would silently keep the last). Json is nlohmann::json, or nlohmann::ordered_json to keep the order of keys.
template <class Json = nlohmann::json>
Json parse_json_strict(std::string_view text) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int, nlohmann::json::parse_event_t event, Json& value) {
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) keys.pop_back();
    if (event == nlohmann::json::parse_event_t::key && !keys.back().insert(value.template get<std::string>()).second)
      throw std::runtime_error("the key " + value.dump() + " is there twice");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const nlohmann::json::parse_error& error) {
    throw std::runtime_error("not JSON at byte " + std::to_string(error.byte));
  }
}

}  // namespace troupe
