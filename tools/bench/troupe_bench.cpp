// The program troupe-bench: the commands that measure and test troupe itself. Users start it through troupe.

#include "tools/bench/rank_process.h"
#include "tools/cli/bench_command.h"
#include "tools/cli/second_program.h"
#include "tools/cli/simulate_command.h"

int main(int count, char** arguments) {
  using namespace troupe;
  return run_second_program("troupe-bench",
                            {done<read_bench, run_bench>(bench_command()),
                             done<read_simulate, run_simulate>(simulate_command()), bench_rank_command()},
                            count, arguments);
}
