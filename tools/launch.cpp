#include "tools/launch.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "runtime/errors.h"
#include "runtime/file.h"

namespace troupe {

int run_program(const std::function<int()>& body) {
  try {
    const int code = body();
    std::cout.flush();
    if (std::cout) return code;
    std::cerr << "troupe: the output cannot be written\n";
    return kExitFailure;
  } catch (const ConfigError& mistake) {
    std::cerr << "troupe: " << mistake.what() << '\n';
    return kExitUserMistake;
  } catch (const IoError& refused) {
    std::cerr << "troupe: " << refused.what() << '\n';
    return kExitFailure;
  } catch (const std::exception& failure) {
    std::cerr << "troupe: internal error: " << failure.what() << '\n';
    return kExitFailure;
  }
}

std::string program_folder() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? "." : program.parent_path().string();
}

void continue_as_learn(char** arguments) {
  const std::string program = program_folder() + "/troupe-learn";
  execv(program.c_str(), arguments);
  throw ConfigError(program + ": cannot be started: " + std::generic_category().message(errno) + "; `troupe " +
                    arguments[1] + "` needs it beside troupe");
}

}  // namespace troupe
