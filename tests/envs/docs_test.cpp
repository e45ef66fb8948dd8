// Checks that docs/environments.md shows the code of this repository and names every environment and parameter.

#include <fstream>
#include <sstream>

#include "envs/make/make_env.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The code blocks of a page, in order.
std::vector<std::string> code_blocks(const std::string& page) {
  const std::string open = "```cpp\n", close = "```\n";
  std::vector<std::string> blocks;
  for (size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    const size_t end = page.find(close, at);
    blocks.push_back(page.substr(at, end - at));
    at = end + close.size();
  }
  return blocks;
}

}  // namespace

TEST_CASE("docs: the worked example is identical to the code") {
  const std::vector<std::string> blocks = code_blocks(text_of("docs/environments.md"));
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0] == text_of("envs/corridor.h"));
  CHECK(blocks[1] == text_of("envs/corridor.cpp"));
  CHECK(text_of("envs/make/make_env.cpp").find(blocks[2]) != std::string::npos);
}

TEST_CASE("docs: every environment and every parameter is named") {
  const std::string page = text_of("docs/environments.md");
  for (const EnvInfo& info : list_environments()) {
    CHECK_MESSAGE(page.find("| `" + info.id + "` |") != std::string::npos, info.id);
    std::istringstream params(info.params);
    for (std::string param; params >> param;) {
      const std::string key = param.substr(0, param.find('='));
      CHECK_MESSAGE(page.find('`' + key + '`') != std::string::npos, info.id << " " << key);
    }
  }
}
