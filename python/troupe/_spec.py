"""Whether a description of an environment is complete, and fits the weights of a policy."""

import math
import re

import numpy as np

from troupe._network import encoder_kinds

_KINDS = ("discrete", "multi_discrete", "continuous")


def check_spec(spec, config, tensors):
    """Raises ValueError that names the first part of the spec that is missing, of a wrong kind, or not like the weights.

    `config` is that of the run, `tensors` are the weights by name.
    """
    observations = _part(
        spec, "spec", "observations", lambda value: _is_list(value) and len(value) > 0, "a list with a dict for each observation"
    )
    for i, each in enumerate(observations):
        _check_observation(each, f"spec.observations[{i}]")
    _check_inputs(observations, config["model"], tensors)
    action = _part(spec, "spec", "action", lambda value: isinstance(value, dict), "a dict")
    _check_numbers(action)
    _check_outputs(action, config["env"].get("chunk", 0), tensors)


def _part(holder, path, key, fits, expected):
    if not isinstance(holder, dict):
        raise ValueError(f"{path} is {holder!r}, expected a dict like Policy.spec")
    if key not in holder:
        raise ValueError(f"{path}.{key} is missing, expected {expected}")
    if not fits(holder[key]):
        raise ValueError(f"{path}.{key} is {holder[key]!r}, expected {expected}")
    return holder[key]


def _is_list(value):
    return isinstance(value, (list, tuple))


def _is_integer(value, least):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least


def _are_integers(least=None):
    return lambda value: _is_list(value) and all(_is_integer(each, -math.inf if least is None else least) for each in value)


def _are_numbers(value):
    return _is_list(value) and all(isinstance(each, (int, float, np.number)) and not isinstance(each, bool) for each in value)


def _is_dtype(value):
    try:
        return isinstance(value, str) and np.dtype(value).kind in "biuf"
    except TypeError:
        return False


def _check_observation(observation, path):
    _part(observation, path, "name", lambda value: isinstance(value, str), "a text")
    shape = _part(observation, path, "shape", _are_integers(1), "a list of whole numbers above 0")
    _part(observation, path, "dtype", _is_dtype, "the name of a dtype of numbers")
    if "categories" not in observation:
        return
    pairs = "a list of [smallest value, number of values]"
    categories = _part(observation, path, "categories", lambda value: _is_list(value) and all(map(_is_range, value)), pairs)
    total, size = sum(count for _, count in categories), math.prod(shape)
    if total != size:
        raise ValueError(f"{path}.categories has {total} values, expected {size} as its shape {list(shape)} has")
    numbers = math.prod(_part(observation, path, "number_shape", _are_integers(1), "a list of whole numbers above 0"))
    if numbers != len(categories):
        raise ValueError(f"{path}.number_shape has {numbers} numbers, expected {len(categories)} as its categories has")


def _is_range(value):
    return _are_integers()(value) and len(value) == 2 and value[1] > 0


def _check_inputs(observations, model, tensors):
    """Compares the shapes of the observations with the first weights."""
    sizes = {each["name"]: math.prod(each["shape"]) for each in observations}
    if len(sizes) < len(observations):
        raise ValueError(f"spec.observations has the names {[each['name'] for each in observations]}, expected different ones")
    if model["kind"] == "net":
        _check_encoders(observations, model, tensors, sizes)
    first = "policy.0.weight" if model["kind"] == "mlp" and not model["shared_trunk"] else "trunk.0.weight"
    taken = next(tensors[name].shape[1] for name in (first, "core.weight_ih", "policy.head.weight") if name in tensors)
    if sum(sizes.values()) != taken:
        of = "spec.observations[0].shape is" if len(observations) == 1 else "spec.observations have the shapes"
        shapes = ", ".join(str(list(each["shape"])) for each in observations)
        given = _numbers(sum(sizes.values())) + (" after the encoders" if model["kind"] == "net" else "")
        raise ValueError(f"{of} {shapes}, {given}, but the weights take {taken}")


def _numbers(count):
    return f"{count} number" + ("" if count == 1 else "s")


def _check_encoders(observations, model, tensors, sizes):
    """Compares the observations with their encoders. `sizes`, by name, become what the encoders give."""
    pattern = re.compile(r"encoder\.(.+)\.\d+\.weight")
    known = {match[1] for match in map(pattern.fullmatch, tensors) if match}
    if not known <= set(sizes):
        raise ValueError(f"spec.observations has the names {sorted(sizes)}, but the weights have encoders of {sorted(known)}")
    for i, (name, kind) in enumerate(encoder_kinds(model["net"], observations).items()):
        layers = sum(f"encoder.{name}.{layer}.weight" in tensors for layer in range(len(tensors)))
        if layers == 0:
            continue
        first, last = tensors[f"encoder.{name}.0.weight"], tensors[f"encoder.{name}.{layers - 1}.weight"]
        if kind == "embedding":
            sizes[name] *= first.shape[1]
        elif sizes[name] != first.shape[1]:
            shape = list(observations[i]["shape"])
            raise ValueError(f"spec.observations[{i}].shape is {shape}, {_numbers(sizes[name])}, but its encoder takes {first.shape[1]}")
        else:
            sizes[name] = last.shape[0]


def _check_numbers(action):
    """Checks the parts of the action, and that they fit each other."""
    path = "spec.action"
    kind = _part(action, path, "kind", lambda value: value in _KINDS, f"one of {', '.join(_KINDS)}")
    _part(action, path, "chunk", lambda value: _is_integer(value, 1), "a whole number above 0")
    _part(action, path, "masked", lambda value: isinstance(value, (bool, np.bool_)), "true or false")
    bins = _part(action, path, "bins", _are_integers(1), "a list of whole numbers above 0")
    low, high = (_part(action, path, key, _are_numbers, "a list of numbers") for key in ("low", "high"))
    if kind == "discrete" and len(bins) != 1:
        raise ValueError(f"spec.action.bins is {list(bins)}, expected one number for spec.action.kind 'discrete'")
    if kind == "continuous" and len(low) != len(high):
        raise ValueError(f"spec.action.low has {len(low)} numbers, expected {len(high)} as spec.action.high has")
    if "number_shape" not in action:
        return
    source, count = ("low", len(low)) if kind == "continuous" else ("bins", len(bins))
    numbers = math.prod(_part(action, path, "number_shape", _are_integers(1), "a list of whole numbers above 0"))
    if numbers != count:
        raise ValueError(f"spec.action.number_shape has {numbers} numbers, expected {count} as spec.action.{source} has")
    _part(action, path, "number_dtype", _is_dtype, "the name of a dtype of numbers")
    if kind != "continuous" and len(_part(action, path, "starts", _are_integers(), "a list of whole numbers")) != count:
        raise ValueError(f"spec.action.starts has {len(action['starts'])} numbers, expected {count} as spec.action.bins has")


def _check_outputs(action, chunk, tensors):
    """Compares the action with the last weights. `chunk` is env.chunk of the run, 0 for that of the environment."""
    outputs, continuous = tensors["policy.head.weight"].shape[0], "policy.log_std" in tensors
    if (action["kind"] == "continuous") != continuous:
        trained = "continuous" if continuous else "discrete"
        raise ValueError(f"spec.action.kind is {action['kind']!r}, but the weights are of {trained} actions")
    if chunk > 0 and action["chunk"] != chunk:
        raise ValueError(f"spec.action.chunk is {action['chunk']}, but env.chunk of the run is {chunk}")
    key = "low" if continuous else "bins"
    described = (len(action["low"]) if continuous else sum(action["bins"])) * action["chunk"]
    if described != outputs:
        times = f" and spec.action.chunk is {action['chunk']}" if action["chunk"] > 1 else ""
        raise ValueError(f"spec.action.{key} is {list(action[key])}{times}, {described} outputs, but the weights have {outputs}")
