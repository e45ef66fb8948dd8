#include "text/normalizer.h"

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("nfc: characters are composed, and composed ones stay") {
  CHECK(nfc("") == "");
  CHECK(nfc("plain text") == "plain text");
  CHECK(nfc("e\u0301") == "\u00e9");
  CHECK(nfc("\u1112\u1161\u11ab") == "\ud55c");
  CHECK(nfc("\u212b") == "\u00c5");
  CHECK(nfc("\ufb01") == "\ufb01");  // compatibility characters are not decomposed
  CHECK(nfc(std::string("\u00e9\0x", 4)) == std::string("\u00e9\0x", 4));
}
