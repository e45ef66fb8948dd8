"""The command `troupe` of an installed wheel: becomes the program in troupe/bin. Imports little, because every command waits for it."""

import os
import sys

BUNDLED = os.path.join(os.path.dirname(os.path.realpath(__file__)), "bin", "troupe")


def _torch_folder():
    """The folder of the PyTorch that this interpreter would import, without importing it; None if there is none with LibTorch."""
    from importlib.util import find_spec

    try:
        spec = find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    # Conda keeps the libraries in its own prefix.
    for folder in [*folders, sys.prefix] if folders else []:
        if os.path.exists(os.path.join(folder, "lib", "libtorch_cpu.so")):
            return folder
    return None


def bundled_environment(environment):
    """`environment` for the bundled program: this interpreter is its python3, and it loads the PyTorch that this interpreter imports."""
    environment = dict(environment)
    folder, path = os.path.dirname(sys.executable or ""), environment.get("PATH", os.defpath)
    first = next((each for each in path.split(os.pathsep) if os.access(os.path.join(each, "python3"), os.X_OK)), None)
    if folder and not (first and os.path.samefile(first, folder)):
        environment["PATH"] = folder + os.pathsep + path
    if not environment.get("TROUPE_TORCH"):
        torch = _torch_folder()
        if torch and not set(torch) & set(":;"):
            environment["TROUPE_TORCH"] = torch
    return environment


def main():
    """Replaces this process by the program, with its arguments, process id and signals."""
    import signal

    # The interpreter ignores these, and a program inherits that.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execve(BUNDLED, sys.argv, bundled_environment(os.environ))
    except OSError as error:
        sys.exit(f"troupe: {BUNDLED}: {error.strerror}")
