"""Estimators, losses and balancers of reinforcement learning, as plain functions.

Every function takes torch tensors or numpy arrays and returns the same kind. Arrays are read in place if their layout allows it.
Errors are ValueErrors with the name of the invalid argument. For CUDA tensors, the scan family (`gae`, `lambda_returns`,
`reward_to_go`, `vtrace`), losses, KL, log-probabilities and Gaussians are computed on the GPU. All other functions compute on
the host, with copies in both directions and a warning at the first call. Types of arguments and results are in
`troupe.algorithms.types`.
"""

import inspect as _inspect

from troupe.algorithms import _balance, _estimators, _kl, _logprob, _losses, _scan, _schedules
from troupe.algorithms._devices import on_host as _on_host
from troupe.algorithms._peers import with_peer_names as _with_peer_names
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

# These compute on the GPU for CUDA tensors; the others are wrapped with on_host.
_ON_THE_GPU = {"aggregate", "policy_loss", "value_loss", "kl", *_logprob.__all__, *_scan.__all__}

for _name in __all__:
    _function = globals()[_name]
    if _inspect.isfunction(_function):
        globals()[_name] = _with_peer_names(_function if _name in _ON_THE_GPU else _on_host(_function))
