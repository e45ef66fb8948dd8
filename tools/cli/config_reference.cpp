#include "tools/cli/config_reference.h"

#include <string_view>
#include <vector>

#include "actors/config/config.h"
#include "algorithms/choice/algorithm_choice.h"
#include "envs/make/make_env.h"
#include "tools/cli/markdown.h"

namespace troupe {
namespace {

constexpr std::string_view kConfigIntroduction = R"(# Settings

Every setting of a config file and every parameter of algorithms and environments. Read this page to look one up. It is the output of
`troupe config --markdown`, and a test compares the two: after a change, generate it again.

A config file is JSON, with comments (`//` and `/* */`), or YAML 1.2 in a file that ends in `.yaml` or `.yml`. It states only what differs
from the defaults. `--set SECTION.KEY=VALUE` changes one setting; the value is JSON, or a bare word for a string.

- A whole number may be written as `1e6` or `2.0`. NaN and infinities are refused.
- `null` means that a setting is not set. It is accepted only where the default is `null`; the effect says after "unset:" which value
  is used.
- A duration is a whole number in the unit at the end of its key (`_ms`, `_us`).
- "Owner" is the folder of the source code that reads the settings of a section.
- "only ..." at the end of an effect says what a setting needs to be read. In a run that does not read it, another value than the default is
  refused; where it says "else ignored", `train` accepts it with a warning.
- "may change" says whether a run can be resumed with another value. In deterministic runs, settings of `workers`, `inference` and
  `scorers` affect the results and are fixed too. "before the first update" means also after steps of a warm-up. Where nothing is trained
  yet, everything may change. At a resume, so may the paths of a dataset in `task.params`
  ([run_folder.md](run_folder.md#files-that-were-moved)).
- [models.md](models.md) describes the keys of `model.net`.
- `format` at the top of a run's `config.json` is written by the program. Leave it out of files of your own.
- Effects name other libraries and papers for comparison: [AcceRL](https://github.com/distanceLu/AcceRL),
  [AReaL](https://github.com/inclusionAI/AReaL), [OpenRLHF](https://github.com/OpenRLHF/OpenRLHF), [slime](https://github.com/THUDM/slime),
  [TRL](https://github.com/huggingface/trl), [verl](https://github.com/verl-project/verl). [algorithms/](algorithms/README.md) links the
  papers.
)";

std::string code_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + code(word);
  return text;
}

const char* change_text(Change change) {
  switch (change) {
    case Change::never: return "no";
    case Change::before_first_update: return "before the first update";
    case Change::at_resume: return "at a resume";
    case Change::at_resume_unless_deterministic: return "at a resume, not in a deterministic run";
    case Change::while_running: return "at any time";
  }
  return "no";
}

// "array of integer, each in [1, 65536]", "number above 0", "string, one of: gae, vtrace".
std::string accepts(const SettingInfo& info, const std::string& range) {
  if (range.empty()) return info.type;
  return info.type + (info.type == "array of integer" ? ", each in " : ", ") + cell(range);
}

std::string accepts(const SettingInfo& info) { return accepts(info, info.range); }

void add_settings(std::string& page) {
  std::string section;
  const auto begin_section = [&](const std::string& title, const SettingInfo& first) {
    page += "\n## " + title + "\n\nOwner: `" + first.owner +
            "/`.\n\n| setting | accepts | default | may change | effect |\n| --- | --- | --- | --- | --- |\n";
  };
  for (const SettingInfo& info : describe_fields()) {
    const size_t dot = info.path.find('.');
    const std::string of = dot == std::string::npos ? "Top level" : info.path.substr(0, dot);
    if (of != section) begin_section(of, info);
    section = of;
    const std::vector<std::string> names = names_for(info.path);
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "one of: " : ", ") + name;
    const std::string needs = info.needs.empty() ? "" : "; " + cell(info.needs);
    const std::string elsewhere =
        info.elsewhere.empty() ? "" : ". Other libraries call it " + code_list(info.elsewhere);
    page += "| " + code(info.path) + " | " + accepts(info, known.empty() ? info.range : known) + " | " +
            code(info.fallback) + " | " + change_text(info.change) + " | " + cell(info.help) + needs + elsewhere +
            " |\n";
  }
}

std::string parameter_row(const SettingInfo& info) {
  return "| " + code(info.path) + " | " + accepts(info) + " | " + code(info.fallback) + " | " + cell(info.help) +
         (info.source.empty() ? "" : " (" + cell(info.source) + ')') +
         (info.aliases.empty() ? "" : ". Also: " + code_list(info.aliases)) + " |\n";
}

constexpr std::string_view kParameterHead = "\n| parameter | accepts | default | effect |\n| --- | --- | --- | --- |\n";

void add_algorithms(std::string& page) {
  page +=
      "\n# Parameters of algorithms\n\nKeys of the objects `algorithm.advantage_params`, `algorithm.surrogate_params` "
      "and `algorithm.rollout_correction`, by the\nname they go with. In brackets: where the default comes from. "
      "[algorithms/](algorithms/README.md) has the formulas.\n";
  std::string path;
  for (const ChoiceParameters& choice : algorithm_parameters()) {
    if (choice.path != path) page += "\n## " + choice.path + '\n';
    path = choice.path;
    if (!choice.choice.empty()) page += "\n### " + choice.choice + '\n';
    if (!choice.aliases.empty()) page += "\nAlso: " + code_list(choice.aliases) + ".\n";
    page += kParameterHead;
    for (const SettingInfo& info : choice.parameters) page += parameter_row(info);
  }
}

void add_environments(std::string& page) {
  page +=
      "\n# Parameters of environments\n\nKeys of the object `env.params`, and of `evaluation.env_params`, by "
      "environment. Those that are not named have none.\n[environments.md](environments.md) describes the "
      "environments.\n";
  for (const EnvInfo& env : list_environments()) {
    if (env.parameters.empty()) continue;
    page += "\n## " + env.id;
    page += '\n';
    page += kParameterHead;
    for (const SettingInfo& info : env.parameters) page += parameter_row(info);
  }
}

}  // namespace

std::string config_reference() {
  std::string page(kConfigIntroduction);
  add_settings(page);
  add_algorithms(page);
  add_environments(page);
  return page;
}

}  // namespace troupe
