#include "tools/cli/moved_files.h"

#include "actors/config/config.h"
#include "runtime/base/suggest.h"
#include "tools/cli/flag_values.h"

namespace troupe {

void add_moved_files(Flags& flags, Words& into) {
  flags.repeatable("--set", "PATH=VALUE", into,
                   "where a file of the run is now, if it was moved: task.params.path, tokenizer.path, model.path and "
                   "others; the files must have the same content; repeatable");
}

void set_moved_files(RunConfig& config, const std::vector<std::string>& moved) {
  for (const std::string& assignment : moved) {
    if (!is_file_setting(assignment.substr(0, assignment.find('=')))) {
      std::string expected;
      for (const std::string_view path : file_settings())
        expected.append(expected.empty() ? "" : ", ").append(path).append("=PLACE");
      refuse_flag("--set", printable(assignment) + ": is not where a file of the run is, expected one of: " + expected);
    }
    apply_override(config, assignment);
  }
}

}  // namespace troupe
