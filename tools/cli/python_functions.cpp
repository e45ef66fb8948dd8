#include "tools/cli/python_functions.h"

#include <filesystem>
#include <string>

#include "runtime/base/errors.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "tasks/python_task.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

void check_file(const std::string& setting, const std::string& function) {
  constexpr size_t kScheme = 3;  // "py:"
  if (function.empty()) return;
  const fs::path file = function.substr(kScheme, function.rfind(':') - kScheme);
  std::error_code failed;
  if (file.extension() != ".py" || fs::is_regular_file(file, failed)) return;
  throw ConfigError(setting + ": \"" + printable(function, 200) + "\": there is no file " +
                    printable(fs::absolute(file).string(), 200));
}

}  // namespace

void check_function_files(const TaskConfig& task) {
  check_file("task.verifier", task.verifier);
  check_file("task.reply", task.reply);
}

std::unique_ptr<WaitingLine> line_for_task(const TaskConfig& task) {
  if (!is_python_task(task)) return nullptr;
  return std::make_unique<WaitingLine>("waiting for the task " + printable(task.name, 200) + " in " +
                                       printable(task.python, 200) + ", for at most task.verifier_start_timeout_ms (" +
                                       std::to_string(task.verifier_start_timeout.count()) + " ms)");
}

void tell_start(const std::string& function, const std::string& python) {
  if (!function.empty()) print_line("starting " + printable(function, 200) + " in " + printable(python, 200) + " ...");
}

}  // namespace troupe
