"""The parts of the environment server, envs/bridge/env_server.py: the process in which troupe runs environments in Python."""

import os

# Several servers and the trainer share the processors, so no library may start a thread for each of them.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

try:
    import numpy as np
except ImportError:
    np = None  # reported in the answer to "describe"

__all__ = ["np"]
