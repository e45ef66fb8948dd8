// Serves a page on a statistics port with the snapshots that come on standard input: page_server PAGE.html.gz [PORT
// [RUN]]. Prints "http://HOST:PORT" first, and "published N" after each line, which is a snapshot: one JSON object.

#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <thread>

#include "models/learning/run_figures.h"
#include "runtime/base/file.h"
#include "runtime/stats/prometheus.h"
#include "runtime/stats/socket.h"
#include "tests/support/exported_fields.h"

namespace {

void serve(const std::string& page, uint16_t port, const std::string& run) {
  troupe::StatsSocketOptions options{.port = port, .run = run, .page_gz = page};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  options.started = std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  options.metrics = troupe::test::exported_snapshot_fields();
  options.figures = troupe::figures_json(troupe::run_figures());
  options.log = [] { return std::string("began\nthe newest line\n"); };
  troupe::StatsSocket server(std::move(options));
  std::cout << "http://" << server.address() << std::endl;
  uint64_t lines = 0;
  for (std::string line; std::getline(std::cin, line);) {
    server.publish(line);
    for (++lines; server.counters().published + server.counters().skipped < lines;) std::this_thread::yield();
    std::cout << "published " << lines << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  serve(troupe::posix_disk().read(argv[1]), argc > 2 ? static_cast<uint16_t>(std::stoi(argv[2])) : 0,
        argc > 3 ? argv[3] : "test");
} catch (const std::exception& error) {
  std::cerr << "page_server: " << error.what() << '\n';
  return 1;
}
