#include "text/normalizer.h"

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("nfc: characters are composed, and composed ones stay") {
  CHECK(nfc("") == "");
  CHECK(nfc("plain text") == "plain text");
  CHECK(nfc("e\u0301") == "\u00e9");
  CHECK(nfc("\u1112\u1161\u11ab") == "\ud55c");
  CHECK(nfc("\uc81c\u11a8") == "\uc81d");
  CHECK(nfc("\uc81c\u11a7") == "\uc81c\u11a7");
  CHECK(nfc("\u212b") == "\u00c5");
  CHECK(nfc("\ufb01") == "\ufb01");                // compatibility characters are not decomposed
  CHECK(nfc("x\u0345\u0334") == "x\u0334\u0345");  // marks in the order of their classes
  CHECK(nfc(std::string("\u00e9\0x", 4)) == std::string("\u00e9\0x", 4));
}

TEST_CASE("nfc: marks that are newer than Unicode 9 stay where they are") {
  CHECK(nfc("x\u07fd\u0334") == "x\u07fd\u0334");
  CHECK(nfc("x\u0345\U0001e4ef\u0345\u0334") == "x\u0345\U0001e4ef\u0334\u0345");
  CHECK(nfc("\U00011935\U00011930") == "\U00011935\U00011930");
  CHECK(nfc("\U00011938\u0334") == "\U00011938\u0334");
  CHECK(nfc("\u07fd") == "\u07fd");
  CHECK(nfc("e\u07fd\u0301e\u0301") == "e\u07fd\u0301\u00e9");
}
