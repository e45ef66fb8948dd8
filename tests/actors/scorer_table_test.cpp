#include "actors/scorer_table.h"

#include "tests/support/test.h"

using namespace troupe;

namespace {

InferenceReport report_of(InferenceIndex index, uint64_t answers, uint64_t busy_us = 0) {
  InferenceReport report;
  report.inference_index = index;
  report.role = Role::scoring;
  report.batches = answers / 2;
  report.rows = answers;
  report.failed = 1;
  report.busy_us = busy_us;
  return report;
}

StatsSnapshot filled(const ScorerTable& table) {
  StatsSnapshot s;
  table.fill(s);
  return s;
}

}  // namespace

TEST_CASE("scorer_table: counts of scorers that are gone stay, and only the others are up") {
  ScorerTable table;
  CHECK(filled(table).scorers_up == 0);
  table.add(report_of(3, 10));
  table.add(report_of(3, 20));  // counts are cumulative
  table.add(report_of(5, 4));
  CHECK(filled(table).scorers_up == 2);
  CHECK(filled(table).scored_answers == 24);
  CHECK(filled(table).scorer_batches == 12);
  CHECK(filled(table).scorer_failures == 2);
  table.add(ReceiverGone{3, Role::scoring});
  table.add(ReceiverGone{4, Role::scoring});  // never heard of
  CHECK(filled(table).scorers_up == 1);
  CHECK(filled(table).scored_answers == 24);
  table.add(report_of(3, 22));  // its last report, which comes late
  CHECK(filled(table).scorers_up == 1);
  CHECK(filled(table).scored_answers == 26);
  ScorerTable again;
  again.load(table.save());
  CHECK(filled(again).scorers_up == 1);
  CHECK(filled(again).scored_answers == 26);
}

TEST_CASE("scorer_table: however many come and go, it stays bounded and forgets no answer") {
  ScorerTable table;
  constexpr InferenceIndex kMany = 3 * ScorerTable::kMost;
  for (InferenceIndex i = 0; i < kMany; ++i) {
    table.add(report_of(i, 1));
    table.add(ReceiverGone{i, Role::scoring});
  }
  CHECK(filled(table).scored_answers == kMany);
  CHECK(filled(table).scorers_up == 0);
  CHECK(table.save().second.size() <= ScorerTable::kMost);
}

TEST_CASE("scorer_table: a report cannot claim more time than can have passed") {
  ScorerTable table;
  table.add(report_of(1, 1, 5'000'000));
  table.add(report_of(1, 1, 7'000'000));
  CHECK(table.busy_us() == 7'000'000);
  table.add(report_of(1, 1, 1'000'000'000'000));
  CHECK(table.busy_us() == 17'000'000);
  table.add(report_of(1, 1, 3));  // it has begun anew
  CHECK(table.busy_us() == 17'000'000);
}
