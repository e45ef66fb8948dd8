#include "tools/cli/text_table.h"

#include "runtime/base/text_format.h"
#include "tests/support/test.h"
#include "tests/tools/troupe_program.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const std::vector<TableColumn> kColumns = {{"run", false, 6}, {"steps", true}, {"reason", false, 4, 1}};
const std::vector<std::vector<std::string>> kRows = {{"runs/cartpole", "1,000", "interrupted"}, {"runs/b", "7", ""}};

}  // namespace

TEST_CASE("text_table: columns are as wide as their widest cell, and lines end without spaces") {
  CHECK(text_table(kColumns, kRows, 200) ==
        "run            steps  reason\n"
        "runs/cartpole  1,000  interrupted\n"
        "runs/b             7\n");
}

TEST_CASE("text_table: what is too wide is cut in the widest columns first, down to their least widths") {
  CHECK(text_table(kColumns, kRows, 28) ==
        "run        steps  reason\n"
        "runs/ca..  1,000  interrup..\n"
        "runs/b         7\n");
}

TEST_CASE("text_table: columns are left out when cutting is not enough, and no line is wider than the terminal") {
  CHECK(text_table(kColumns, kRows, 16)
            .starts_with("run        steps\n"
                         "runs/ca..  1,000\n"
                         "runs/b         7\n"));
  for (size_t width = 1; width < 60; ++width)
    for (const std::string& line : lines_of(text_table(kColumns, kRows, width))) CHECK(display_width(line) <= width);
}

TEST_CASE("text_table: columns that are left out are named below the table") {
  CHECK(text_table(kColumns, kRows, 33).find("no room") == std::string::npos);
  CHECK(text_table(kColumns, kRows, 18).ends_with("no room for:\nreason (a wider\nterminal or a pipe\nhas them)\n"));
}

TEST_CASE("text_table: the least important column is left out first, and a smaller one may have its room") {
  const std::vector<TableColumn> columns = {{"run"}, {"wide", false, 0, 2}, {"x", false, 0, 1}};
  const std::string table = text_table(columns, {{"runs/a", "twenty columns......", "1"}}, 20);
  CHECK(table.starts_with("run     x\nruns/a  1\n"));
  CHECK(table.find("no room for: wide") != std::string::npos);
}

TEST_CASE("text_table: cells that tell rows apart are cut in the middle, and never made alike") {
  const std::vector<TableColumn> columns = {{"run", false, 8, 0, true}, {"reason", false, 4, 1}};
  const std::string table =
      text_table(columns, {{"policy_lr=0.001_seed=1", "interrupted"}, {"policy_lr=0.001_seed=2", "interrupted"}}, 18);
  CHECK(table.starts_with("run       reason\npol..d=1  interr..\npol..d=2  interr..\n"));
  const std::string other =
      text_table(columns, {{"policy_lr=0.001_seed=1", "interrupted"}, {"policy_lr=0.002_seed=1", "interrupted"}}, 24);
  CHECK(other.starts_with("run                 re..\npolicy_l..1_seed=1  in..\npolicy_l..2_seed=1  in..\n"));
}

TEST_CASE("text_table: without room for different cells the lines still fit") {
  const std::vector<TableColumn> columns = {{"run", false, 8, 0, true}};
  CHECK(text_table(columns, {{"policy_lr=0.001_seed=1"}, {"policy_lr=0.002_seed=1"}}, 10) ==
        "run\npoli..ed=1\npoli..ed=1\n");
}

TEST_CASE("text_table: a table without rows has its titles") {
  CHECK(text_table(kColumns, {}, 80) == "run  steps  reason\n");
}

TEST_CASE("text_table: control characters do not reach the terminal") {
  CHECK(text_table({{"run"}}, {{"it is \x1b[2J high\xc2\x9b"}}, SIZE_MAX) == "run\nit is ?[2J high?\n");
}
