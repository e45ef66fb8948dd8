// CMake makes a precompiled header only for a target with a source.
