#pragma once
// What the user started a run with: the command, the machine, and the code in the current folder. Plain functions; main
// thread; start_facts() blocks for as long as git needs, at most some seconds.

#include "runtime/run_folder/run_about.h"

namespace troupe {

// The name of this machine; empty if it has none.
std::string host_name();

// What is not known stays empty: the commit and the diff where the current folder is in no work tree of git, or without
// git.
StartFacts start_facts();

}  // namespace troupe
