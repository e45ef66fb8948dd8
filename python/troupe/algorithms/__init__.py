"""Estimators, losses and balancers of reinforcement learning, as plain functions.

Every function takes and returns torch tensors or numpy arrays (what goes in comes out), reads them in place where their
layout allows, and raises ValueError naming the argument that does not fit. CUDA tensors: the scan family (`gae`,
`lambda_returns`, `reward_to_go`, `vtrace`) runs on the GPU, the others on the host, with a copy there and back.
"""

import inspect as _inspect

from troupe.algorithms import _balance, _estimators, _kl, _logprob, _losses, _scan, _schedules
from troupe.algorithms._cuda_scan import on_host as _on_host
from troupe.algorithms._balance import *  # noqa: F403
from troupe.algorithms._estimators import *  # noqa: F403
from troupe.algorithms._kl import *  # noqa: F403
from troupe.algorithms._logprob import *  # noqa: F403
from troupe.algorithms._losses import *  # noqa: F403
from troupe.algorithms._scan import *  # noqa: F403
from troupe.algorithms._schedules import *  # noqa: F403

__all__: list[str] = []
__all__ += _scan.__all__
__all__ += _losses.__all__
__all__ += _kl.__all__
__all__ += _logprob.__all__
__all__ += _estimators.__all__
__all__ += _balance.__all__
__all__ += _schedules.__all__

# Kernels for GPUs exist for the scan family; the others work on the host.
for _name in __all__:
    if _name not in _scan.__all__ and _inspect.isfunction(globals()[_name]):
        globals()[_name] = _on_host(globals()[_name])
