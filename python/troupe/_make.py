"""troupe.make_env and troupe.make_vec. Gymnasium is imported by the first call."""


def _classes():
    try:
        import gymnasium  # noqa: F401
    except ImportError as error:
        raise ImportError("make_env and make_vec need Gymnasium 1.1 or newer: pip install gymnasium") from error
    try:
        from troupe import _envs  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "this package was built without environments: install nlohmann/json (Debian: nlohmann-json3-dev) and build it again"
        ) from error
    from troupe import _gymnasium

    return _gymnasium


def make_env(env_id, render_mode=None, chunk=0, **params):
    """A gymnasium.Env over an environment in C++, like "CartPole-v1" (`troupe envs` lists them).

    render_mode: "ansi" for text, or None. chunk: steps of an action chunk; 0 is the environment's default.
    params: the keys of `env.params`.

    Observations are a Box, or a Dict of them if the environment has several arrays or action masks ("action_mask"). Raises ValueError for
    an unknown id or parameter, ImportError if Gymnasium is missing. step() raises RuntimeError for an action that is out of range or
    masked.
    """
    return _classes().Env(env_id, render_mode, chunk or 0, params)


def make_vec(env_id, num_envs=1, chunk=0, **params):
    """A gymnasium.vector.VectorEnv with `num_envs` rows of an environment in C++, stepped in one call without Python.

    A row whose episode ends is reset in the same step (AutoresetMode.SAME_STEP). infos["final_obs"] then holds the last observations of the
    old episodes for the rows in infos["_final_obs"]; the other rows of it are undefined. Rewards are float32 [N], terminated and truncated
    bool [N]. reset(seed=S) seeds row i with (S, i). Errors are those of make_env.
    """
    num_envs = 1 if num_envs is None else num_envs
    if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
        raise ValueError(f"num_envs is {num_envs!r}, expected a whole number of at least 1")
    return _classes().VectorEnv(env_id, num_envs, chunk or 0, params)
