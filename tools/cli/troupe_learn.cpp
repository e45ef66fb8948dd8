// The program troupe-learn: the commands that compute with tensors. Users start it through troupe.

#include <cstdlib>
#include <iostream>

#include "runtime/base/errors.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/launch.h"

namespace troupe {
namespace {

struct Run {
  int operator()(const TrainOptions& options) const { return run_train(options); }
  int operator()(const InferenceOptions& options) const { return run_inference(options); }
  int operator()(const EvalOptions& options) const { return run_eval(options); }
  int operator()(const PlayOptions& options) const { return run_play(options); }
  int operator()(const BenchOptions& options) const { return run_bench(options); }
  template <class Other>
  int operator()(const Other&) const {
    throw ConfigError("this command is done by the program troupe, not by troupe-learn");
  }
};

}  // namespace
}  // namespace troupe

int main(int count, char** arguments) {
  setenv("GLOO_LOG_LEVEL", "ERROR", /*overwrite=*/0);  // its news about connections are in our log, in plain words
  return troupe::run_program([&] {
    const auto options = troupe::parse_command_line({arguments + 1, arguments + count}, std::cout);
    return options ? std::visit(troupe::Run{}, *options) : 0;
  });
}
