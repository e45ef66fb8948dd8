#pragma once
// How the tables of figures read members of a StatsSnapshot and write them. Included only by the sources of the tables.

#include <cmath>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/stats/snapshot_fields.h"

namespace troupe {

using FigureJson = nlohmann::ordered_json;

// `when` of rows in several tables.
inline constexpr const char* kAlways = "always";
inline constexpr const char* kTimed = "not in deterministic runs";
inline constexpr const char* kTrainedTimed = "after the first update, not in deterministic runs";
inline constexpr const char* kVerified = "with `task.verifier` or `task.reply`, so not in deterministic runs";

inline void read_figure(const FigureJson& from, double& into) {
  into = from.is_number() ? from.get<double>() : kUnknown;
}
inline void read_figure(const FigureJson& from, uint64_t& into) {
  into = from.is_number_unsigned() ? from.get<uint64_t>() : 0;
}
inline void read_figure(const FigureJson& from, bool& into) { into = from.is_boolean() && from.get<bool>(); }
inline void read_figure(const FigureJson& from, std::string& into) {
  into = from.is_string() ? from.get<std::string>() : "";
}
template <class Value>
void read_figure(const FigureJson& from, std::map<std::string, Value>& into) {
  into.clear();
  if (!from.is_object()) return;
  for (const auto& [key, value] : from.items()) read_figure(value, into[key]);
}

// A member of the snapshot.
template <auto member>
constexpr FieldAccess of{[](const StatsSnapshot& s) { return FigureJson(s.*member); },
                         [](StatsSnapshot& s, const FigureJson& value) { read_figure(value, s.*member); }};

// A member of one of its parts.
template <auto part, auto member>
constexpr FieldAccess of_part{[](const StatsSnapshot& s) { return FigureJson((s.*part).*member); },
                              [](StatsSnapshot& s, const FigureJson& value) { read_figure(value, (s.*part).*member); }};

// A member of one of its parts that only token runs have; null in others.
template <auto part, auto member>
constexpr FieldAccess of_token_runs{
    [](const StatsSnapshot& s) { return s.words->tokens ? FigureJson((s.*part).*member) : FigureJson(); },
    [](StatsSnapshot& s, const FigureJson& value) { read_figure(value, (s.*part).*member); }};

// A member of a part that may be absent; null without it.
template <auto part, auto member>
constexpr FieldAccess of_optional{
    [](const StatsSnapshot& s) { return s.*part ? FigureJson((*(s.*part)).*member) : FigureJson(); },
    [](StatsSnapshot& s, const FigureJson& value) {
      if (value.is_null()) return;
      auto& present = s.*part;
      if (!present) present.emplace();
      read_figure(value, (*present).*member);
    }};

// A member of the figures of verifiers.
template <auto member>
constexpr FieldAccess of_verifier = of_optional<&StatsSnapshot::verifier, member>;

}  // namespace troupe
