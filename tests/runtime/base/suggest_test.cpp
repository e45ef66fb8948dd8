#include "runtime/base/suggest.h"

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("suggest: distance counts insertions, deletions, substitutions and swaps") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("gamma", "gama") == 1);
  CHECK(edit_distance("epcohs", "epochs") == 1);
  CHECK(edit_distance("Acrobot", "acrobot") == 0);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("suggest: nothing is suggested for a word that is similar to no candidate") {
  CHECK(closest("xyzzy", {"gamma", "lambda"}) == "");
  CHECK(closest("", {"a"}) == "");
  CHECK(closest(std::string(1'000'000, 'a'), {"aaaa"}) == "");
}

TEST_CASE("printable: the result is one line of UTF-8, cut between characters") {
  CHECK(printable("a\n\t\x7f") == "a\\x0a\\x09\\x7f");
  CHECK(printable("a\u202eb\u2069\u200f") == "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa9\\xe2\\x80\\x8f");
  CHECK(printable("gr\u00fc\u00df \u2713 \U0001F600") == "gr\u00fc\u00df \u2713 \U0001F600");
  CHECK(printable("\xff\xc3(\xe2\x82\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf") ==
        "\\xff\\xc3(\\xe2\\x82\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xc0\\xaf");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("ab\u00fc", 3) == "ab...");
}
