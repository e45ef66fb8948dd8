#pragma once
// What the user started a run with: the command, the machine, and the code in the current folder. Plain function; main
// thread, blocks for as long as git needs, at most some seconds.

#include "runtime/run_folder/run_about.h"

namespace troupe {

// What is not known stays empty: the commit and the diff where the current folder is in no work tree of git, or without
// git.
StartFacts start_facts();

}  // namespace troupe
