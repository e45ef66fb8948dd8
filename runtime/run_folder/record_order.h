#pragma once
// The order of the records of metrics.jsonl. The record of an evaluation has the figures of the update that was
// evaluated, but is written when the evaluation ends: in the file, records of later steps come before it. Plain
// functions; any thread.

#include <compare>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/run_folder/json_scan.h"

namespace troupe {

// Records are in the order of their environment steps, those with equal steps in that of their updates.
struct RecordPlace {
  double env_steps = 0, updates = 0;
  auto operator<=>(const RecordPlace&) const = default;
};

// Of a record with these numbers. One that is not finite is taken from `other`.
RecordPlace record_place(double env_steps, double updates, const RecordPlace& other);

// Scans a line as scan_json() does. `place` is that of the record before it in the file and becomes that of this one;
// it stays as it is if the line is no record.
bool scan_record(std::string_view line, RecordPlace& place, const OnScalar& on_scalar);

// How many of the records before it in the file, whose places are in order, come before a record: those at its own
// place too.
size_t records_before(std::span<const RecordPlace> ordered, const RecordPlace& place);

// The indices of the records of a file, in order. Those at the same place stay in the order of the file.
std::vector<size_t> in_order(std::span<const RecordPlace> places);

}  // namespace troupe
