// docs/tokens.md has every setting of the section tokenizer.

#include "runtime/base/file.h"
#include "runtime/config/fields.h"
#include "tests/support/test.h"
#include "text/tokenizer_config.h"

using namespace troupe;

TEST_CASE("docs: every setting of a tokenizer is in the table") {
  const std::string page = posix_disk().read("docs/tokens.md", 1 << 20);
  TokenizerConfig config;
  Fields fields;
  describe(config, fields);
  for (const SettingInfo& setting : infos_of(fields)) {
    const size_t begin = page.find("| `" + setting.path + "` | " + setting.range);
    REQUIRE_MESSAGE(begin != std::string::npos, setting.path);
    const std::string row = page.substr(begin, page.find('\n', begin) - begin);
    CHECK_MESSAGE(row.ends_with(" | `" + setting.fallback + "` | " + setting.help + " |"), row);
  }
}
