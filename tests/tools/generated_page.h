#pragma once
// Checks that a page of docs/ is the output of the command that generates it.

#include <string>

#include "runtime/base/file.h"
#include "tests/support/test.h"

namespace troupe::test {

inline void check_page(const std::string& page, const std::string& generated, const std::string& command) {
  const bool current = posix_disk().read(page) == generated;
  CHECK_MESSAGE(current, page << " differs from the output of `troupe " << command
                              << "`; generate it again: build/release/troupe " << command << " > " << page);
}

}  // namespace troupe::test
