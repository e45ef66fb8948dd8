#pragma once
// Closing the descriptors that a child process inherits. System calls alone, so that it may be called between fork and
// exec.

namespace troupe {

// Closes every descriptor from `first` on.
void close_descriptors_from(int first);

// The same without close_range(2), which Linux has since 5.9, and without /proc. The first is false where /proc is not
// mounted.
bool close_listed_descriptors_from(int first);
void close_possible_descriptors_from(int first);

}  // namespace troupe
