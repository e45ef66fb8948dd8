// docs/config.md is what the program says about its settings.
#include "tools/cli/config_reference.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "actors/config/config.h"
#include "algorithms/common/algorithm_choice.h"
#include "envs/make_env.h"
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

}  // namespace

TEST_CASE("config reference: docs/config.md is current") {
  const bool current = text_of("docs/config.md") == config_reference();
  CHECK_MESSAGE(current,
                "docs/config.md is not what `troupe config --markdown` prints; write it anew: "
                "build/release/troupe config --markdown > docs/config.md");
}

TEST_CASE("config reference: the owner of every setting is a folder of the source tree") {
  const auto check = [](const SettingInfo& info) {
    CHECK_MESSAGE(std::filesystem::is_directory(info.owner), info.path << ": " << info.owner);
    CHECK_MESSAGE(!info.owner.empty(), info.path);
  };
  for (const SettingInfo& info : describe_fields()) check(info);
  for (const ChoiceParameters& choice : algorithm_parameters())
    for (const SettingInfo& info : choice.parameters) check(info);
  for (const EnvInfo& env : list_environments())
    for (const SettingInfo& info : env.parameters) check(info);
}

TEST_CASE("config reference: it has a row for every setting and every parameter") {
  const std::string page = config_reference();
  const auto has_row = [&](const std::string& key) { return page.find("\n| `" + key + "` | ") != std::string::npos; };
  for (const SettingInfo& info : describe_fields()) CHECK_MESSAGE(has_row(info.path), info.path);
  for (const ChoiceParameters& choice : algorithm_parameters())
    for (const SettingInfo& info : choice.parameters) CHECK_MESSAGE(has_row(info.path), info.path);
  for (const EnvInfo& env : list_environments())
    for (const SettingInfo& info : env.parameters) CHECK_MESSAGE(has_row(info.path), info.path);
}
