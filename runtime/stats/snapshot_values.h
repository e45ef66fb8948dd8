#pragma once
// The functions that read the figures of a snapshot for the tables in snapshot_fields.cpp and
// evaluation_fields.cpp. Pure; any thread.

#include <string>

#include <nlohmann/json.hpp>

#include "runtime/stats/bottleneck.h"
#include "runtime/stats/snapshot.h"

namespace troupe::snapshot_values {

using Json = nlohmann::ordered_json;
using S = StatsSnapshot;

template <auto member>
Json of(const S& s) {
  return s.*member;
}
template <uint64_t Ledger::* member>
Json of_ledger(const S& s) {
  return s.ledger.*member;
}
template <double BusyShares::* member>
Json of_busy(const S& s) {
  return s.busy.*member;
}
template <auto member>
Json of_eval(const S& s) {
  return s.evaluation ? Json((*s.evaluation).*member) : Json();
}
inline Json pass_at(const S& s) {
  Json result = Json::object();
  if (!s.evaluation) return result;
  for (const auto& [k, passed] : s.evaluation->pass_at) result[std::to_string(k)] = passed;
  return result;
}
template <auto member>
Json of_failed(const S& s) {
  return s.failed_evaluations.error.empty() ? Json() : Json(s.failed_evaluations.*member);
}
template <auto member>
Json of_evaluating(const S& s) {
  return s.evaluating ? Json((*s.evaluating).*member) : Json();
}
template <auto member>
Json of_warmup(const S& s) {
  return s.warmup ? Json((*s.warmup).*member) : Json();
}
template <auto member>
Json of_prompts(const S& s) {
  return s.prompts ? Json((*s.prompts).*member) : Json();
}
template <uint64_t VerifierFigures::* member>
Json of_verifier(const S& s) {
  return s.verifier ? Json((*s.verifier).*member) : Json();
}
template <uint64_t VerifierFigures::* member>
Json verifier_seconds(const S& s) {
  return s.verifier ? Json(static_cast<double>((*s.verifier).*member) / 1e6) : Json();
}
inline Json failed_count(const S& s) { return s.failed_evaluations.count; }
template <auto member>
Json of_bottleneck(const S& s) {
  return find_bottleneck(s).*member;
}

inline Json alarm_levels(const S& s) {
  Json result = Json::object();
  for (const auto& [name, alarm] : s.alarms) result[name] = static_cast<int>(alarm.level);
  return result;
}

inline Json alarm_texts(const S& s) {
  Json result = Json::object();
  for (const auto& [name, alarm] : s.alarms) result[name] = alarm.text;
  return result;
}

template <auto member>
Json memory(const S& s) {
  return s.*member > 0 ? Json(s.*member) : Json();
}

}  // namespace troupe::snapshot_values
