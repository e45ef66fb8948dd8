#include "runtime/base/crc32c.h"

#include <string>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("crc32c: the known answers of RFC 3720 B.4 and the usual check value") {
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  CHECK(crc32c(rising) == 0x46dd794eu);
  CHECK(crc32c("123456789") == 0xe3069283u);
  CHECK(crc32c("") == 0u);
}

TEST_CASE("crc32c: the CRC of two parts equals the CRC of the whole, for any cut") {
  const std::string bytes = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= bytes.size(); ++cut)
    CHECK(crc32c(bytes.substr(cut), crc32c(bytes.substr(0, cut))) == crc32c(bytes));
}
