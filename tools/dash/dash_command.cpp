// `troupe dash`: a page for browsers about the runs in folders.

#include <cstdint>
#include <memory>
#include <string>

#include "models/learning/run_figures.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/output.h"
#include "runtime/base/text_format.h"
#include "runtime/stats/socket.h"
#include "tools/cli/address.h"
#include "tools/cli/command.h"
#include "tools/cli/dashboard_page.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/launch.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/tunnel.h"
#include "tools/dash/dash_data.h"

namespace troupe {
namespace {

constexpr const char* kDefaultFolder = "runs";
constexpr std::chrono::milliseconds kReplyTime{60000};  // for a slow connection to take a large answer

struct DashOptions {
  Words folders;
  Address port = kLoopbackAnyPort;
};

DashOptions read_dash(Flags& flags) {
  DashOptions options;
  flags.arguments("DIR...", options.folders, "folders of runs, or folders that hold such folders (default: runs)");
  flags.option("--port", "[HOST:]PORT", options.port, parse_listen_address,
               "where to serve the page; a port alone is on the loopback interface (default: any free port there)");
  flags.read();
  for (const std::string& folder : options.folders) path_to("a folder")("DIR", folder);
  if (options.folders.empty()) options.folders = {kDefaultFolder};
  return options;
}

int serve_runs(const DashOptions& options) {
  StopSignals signals("stopped before the page was served");
  const auto data = std::make_shared<DashData>(options.folders);
  std::unique_ptr<StatsSocket> socket;
  try {
    socket = std::make_unique<StatsSocket>(
        StatsSocketOptions{.host = options.port.host,
                           .port = options.port.port,
                           .page_gz = dash_page(),
                           .figures = figures_json(run_figures()),
                           .data = [data](std::string_view target) { return data->answer(target); },
                           .linger_timeout = kReplyTime});
  } catch (const IoError& refused) {
    throw ConfigError(std::string("--port ") + refused.what());
  }
  signals.begin({});
  print_line("dashboard  http://" + socket->address() + "/");
  print_tunnel(parse_address("--port", socket->address()));
  signals.wait();
  socket->stop();
  return kExitInterrupted;
}

}  // namespace

Command dash_command() {
  return {.name = "dash",
          .summary = "serve a page that shows and compares runs, finished or live",
          .examples =
              "  troupe dash\n"
              "  troupe dash runs/sweep more/cartpole --port 8080\n",
          .exit_codes = {{1, "an error of troupe or of the machine"},
                         {2, "a mistake in the command, or a port that cannot be opened"},
                         {130, "stopped by a signal: the only normal end"}},
          .parse = read_then_run<read_dash, serve_runs>};
}

}  // namespace troupe
