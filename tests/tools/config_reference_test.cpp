// docs/config.md is current, and has every setting.
#include "tools/cli/config_reference.h"

#include <filesystem>

#include "actors/config/config.h"
#include "algorithms/choice/algorithm_choice.h"
#include "envs/make/make_env.h"
#include "tests/support/test.h"
#include "tests/tools/generated_page.h"

using namespace troupe;

TEST_CASE("config reference: docs/config.md is current") {
  test::check_page("docs/config.md", config_reference(), "config --markdown");
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
