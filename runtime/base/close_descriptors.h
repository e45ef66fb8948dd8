#pragma once
// Closes the descriptors that a child process inherits. Uses only system calls, so that it may be called between fork
// and exec.

namespace troupe {

// Closes every descriptor that is `first` or higher.
void close_descriptors_from(int first);

// The same without close_range(2), which Linux has since 5.9: by the list in /proc, and without /proc. The first
// returns false if /proc is not mounted.
bool close_listed_descriptors_from(int first);
void close_possible_descriptors_from(int first);

}  // namespace troupe
