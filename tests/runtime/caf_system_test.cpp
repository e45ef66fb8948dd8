#include "runtime/caf_system.h"

#include <algorithm>

#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>

#include "tests/support/test.h"

namespace troupe {
namespace {

// Plain words, not the name of a constant.
void check_words(const std::string& text) {
  CAPTURE(text);
  CHECK(text.size() > 5);
  CHECK(text.find('_') == std::string::npos);
}

}  // namespace

TEST_CASE("describe: every error of CAF is told in plain words") {
  for (int code = 1; code <= static_cast<int>(caf::sec::connection_timeout); ++code)
    check_words(describe(make_error(static_cast<caf::sec>(code))));
  for (int code = 1; code <= static_cast<int>(caf::exit_reason::unreachable); ++code)
    check_words(describe(make_error(static_cast<caf::exit_reason>(code))));
}

TEST_CASE("describe: a fault is told by its context, or in plain words without one") {
  CHECK(describe(make_error(Fault::bad_message, "workers is 0, expected 1 to 4096")) ==
        "workers is 0, expected 1 to 4096");
  for (int code = 1; code <= static_cast<int>(Fault::not_restored); ++code)
    check_words(describe(make_error(static_cast<Fault>(code))));
}

}  // namespace troupe
