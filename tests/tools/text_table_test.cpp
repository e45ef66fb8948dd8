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
  CHECK(text_table(kColumns, kRows, 16) ==
        "run        steps\n"
        "runs/ca..  1,000\n"
        "runs/b         7\n");
  for (size_t width = 1; width < 60; ++width)
    for (const std::string& line : lines_of(text_table(kColumns, kRows, width))) CHECK(display_width(line) <= width);
}

TEST_CASE("text_table: a table without rows has its titles") {
  CHECK(text_table(kColumns, {}, 80) == "run  steps  reason\n");
}

TEST_CASE("text_table: control characters do not reach the terminal") {
  CHECK(text_table({{"run"}}, {{"it is \x1b[2J high\xc2\x9b"}}, SIZE_MAX) == "run\nit is ?[2J high?\n");
}
