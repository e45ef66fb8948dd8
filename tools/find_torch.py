#!/usr/bin/env python3
"""Finds LibTorch for CMake and tools/setup: the only place that decides whether a PyTorch can be used.

  find_torch.py              the PyTorch of the interpreter that runs this file (without importing it, which takes seconds)
  find_torch.py DIRECTORY    the one in DIRECTORY, which may be a LibTorch folder, a CMake prefix or a Torch_DIR

Prints "<root> <version> <cpu|cuda>" separated by tabs and exits with 0; or prints one line that says what is wrong and exits with 1.
The root holds include/ and lib/.
"""

import importlib.util
import os
import re
import sys

MINIMUM = (2, 4)
NEEDED = ("lib/libtorch.so", "lib/libtorch_cpu.so", "lib/libc10.so", "include/ATen/core/Tensor.h")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def roots_of_interpreter():
    """The package folder, then the interpreter's prefix (where conda puts LibTorch)."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        return []
    return [list(spec.submodule_search_locations)[0], sys.prefix]


def roots_around(directory):
    """The directory itself, and those whose share/cmake or share/cmake/Torch it may be."""
    directory = os.path.abspath(directory)
    return [os.path.normpath(os.path.join(directory, *[".."] * up)) for up in range(4)]


def version_of(root):
    """Major and minor version from the headers, since these are compiled."""
    for header in ("include/torch/headeronly/version.h", "include/torch/csrc/api/include/torch/version.h"):
        text = read(os.path.join(root, header))
        found = [re.search(r"#define TORCH_VERSION_%s (\d+)" % part, text) for part in ("MAJOR", "MINOR")]
        if all(found):
            return tuple(int(match.group(1)) for match in found)
    return None


def problem_with(root):
    """Why the LibTorch in `root` cannot be used, or None."""
    version = version_of(root)
    if version is None:
        return f"the LibTorch in {root} has no version header; is its installation complete?"
    if version < MINIMUM:
        return "the LibTorch in %s is %d.%d; troupe needs %d.%d or newer" % (root, *version, *MINIMUM)
    missing = [path for path in NEEDED if not os.path.exists(os.path.join(root, path))]
    if missing:
        return f"the LibTorch in {root} lacks {missing[0]}; install it again"
    if "_GLIBCXX_USE_CXX11_ABI=0" in read(os.path.join(root, "share/cmake/Torch/TorchConfig.cmake")):
        return (
            "the LibTorch %d.%d in %s is built with the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0) and cannot be linked "
            "with the system's CAF; use 2.7 or newer, or a cxx11-ABI build" % (*version, root)
        )
    return None


def main():
    if len(sys.argv) > 2:
        print("usage: find_torch.py [DIRECTORY]")
        return 2
    roots = roots_around(sys.argv[1]) if len(sys.argv) == 2 else roots_of_interpreter()
    roots = [root for root in roots if os.path.exists(os.path.join(root, "lib/libtorch.so"))]
    if not roots:
        print(f"no LibTorch at {sys.argv[1]}" if len(sys.argv) == 2 else f"{sys.executable} has no PyTorch")
        return 1
    problem = problem_with(roots[0])
    if problem:
        print(problem)
        return 1
    kind = "cuda" if os.path.exists(os.path.join(roots[0], "lib/libtorch_cuda.so")) else "cpu"
    print(roots[0], "%d.%d" % version_of(roots[0]), kind, sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())
