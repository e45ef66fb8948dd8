"""The networks of troupe in numpy: from observations to the outputs of the heads. Letters: B rows, P outputs, S numbers of state."""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float32])


def called(name):
    """What messages call an observation: the only one of an environment without names is "observation"."""
    return "the observation" if name == "observation" else f"observation {name}"


def _sigmoid(x):
    return 0.5 * (np.tanh(0.5 * x) + 1)  # does not overflow


_ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x * np.float32(math.sqrt(0.5)))),
    "silu": lambda x: x * _sigmoid(x),
}
_ENCODERS = ("mlp", "embedding")


def _mean_and_std(tensors, name):
    count, mean, m2 = (tensors[f"{name}.{part}"] for part in ("count", "mean", "m2"))
    variance = m2 / count if count >= 2 else np.ones_like(m2)
    return mean.astype(np.float32), np.sqrt(variance + 1e-8).astype(np.float32)


def _flat(array):
    """[B, ...] as [B, N], also for 0 rows."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _numbers(array):
    """An observation [B, ...] as float32 [B, N]; bytes are scaled to [0, 1]."""
    flat = _flat(array)
    return flat.astype(np.float32) * np.float32(1 / 255) if array.dtype == np.uint8 else flat.astype(np.float32)


class Network:
    """A network of kind "mlp" or "net". Raises ValueError, naming it, for a kind or an encoder that numpy cannot compute here."""

    def __init__(self, model, tensors, observations):
        if model["kind"] not in ("mlp", "net"):
            raise ValueError(f"model.kind is {model['kind']!r}, expected mlp or net")
        self._model = model
        self._tensors = tensors
        self._activation = _ACTIVATIONS[model["activation"]]
        self._encoders = {} if model["kind"] == "mlp" else encoder_kinds(model["net"], observations)
        core = model["net"].get("core", {}) if model["kind"] == "net" else {}
        self._core = core.get("kind", "none")
        size = tensors["core.weight_hh"].shape[1] if self._core != "none" else 0
        self.state_size = 2 * size if self._core == "lstm" else size

    def run(self, observations, state):
        """The outputs of the policy head [B, P], the values [B] and the state after the step [B, S].

        `observations` are arrays [B, ...] by name, in the order of the environment; `state` is [B, S] float32.
        """
        if self._model["kind"] == "mlp":
            x = self._normalized(np.concatenate([_numbers(each) for each in observations.values()], axis=1))
            shared = self._model["shared_trunk"]
            policy, value = self._stack("trunk" if shared else "policy", x), self._stack("trunk" if shared else "value", x)
        else:
            encoded = self._encode(observations)
            policy, state = self._step_core(self._stack("trunk", encoded), state)
            value = policy
            if "value_trunk" in self._model["net"]:
                value = self._stack("value", encoded if self._core == "none" else policy)
        values = self._linear("value.head", value)[:, 0]
        if self._model["normalize_returns"]:
            mean, std = _mean_and_std(self._tensors, "return_normalizer")
            values = values * std[0] + mean[0]
        return self._linear("policy.head", policy), values, state

    def _linear(self, name, x):
        return x @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]

    def _stack(self, prefix, x):
        layer = 0
        while f"{prefix}.{layer}.weight" in self._tensors:
            x = self._activation(self._linear(f"{prefix}.{layer}", x))
            layer += 1
        return x

    def _normalized(self, x):
        if not self._model["normalize_observations"]:
            return x
        mean, std = _mean_and_std(self._tensors, "observation_normalizer")
        clip = self._model["observation_clip"]
        x = (x - mean) / std
        return np.clip(x, -clip, clip) if clip > 0 else x

    def _encode(self, observations):
        numbers = {name: _numbers(observations[name]) for name, kind in self._encoders.items() if kind == "mlp"}
        if numbers:
            ends = np.cumsum([each.shape[1] for each in numbers.values()])
            joined = self._normalized(np.concatenate(list(numbers.values()), axis=1))
            numbers = dict(zip(numbers, np.split(joined, ends[:-1], axis=1)))
        parts = []
        for name, kind in self._encoders.items():
            if kind == "mlp":
                parts.append(self._stack(f"encoder.{name}", numbers[name]))
            else:
                parts.append(self._embedded(name, observations[name]))
        return np.concatenate(parts, axis=1)

    def _embedded(self, name, observation):
        table = self._tensors[f"encoder.{name}.0.weight"]
        indices = _flat(observation)
        if indices.size and (indices.min() < 0 or indices.max() >= len(table)):
            raise ValueError(f"{called(name)} has {indices.min()} to {indices.max()}, expected 0 to {len(table) - 1}")
        return _flat(table[indices.astype(np.int64)])

    def _step_core(self, x, state):
        if self._core == "none":
            return x, state
        inputs = x @ self._tensors["core.weight_ih"].T + self._tensors["core.bias_ih"]
        hidden = np.split(state, 2, axis=1) if self._core == "lstm" else [state]
        sums = hidden[0] @ self._tensors["core.weight_hh"].T + self._tensors["core.bias_hh"]
        if self._core == "lstm":
            i, f, g, o = np.split(inputs + sums, 4, axis=1)
            cell = _sigmoid(f) * hidden[1] + _sigmoid(i) * np.tanh(g)
            output = _sigmoid(o) * np.tanh(cell)
            return output, np.concatenate([output, cell], axis=1)
        (ir, iz, im), (sr, sz, sm) = np.split(inputs, 3, axis=1), np.split(sums, 3, axis=1)
        update = _sigmoid(iz + sz)
        new = np.tanh(im + _sigmoid(ir + sr) * sm)
        output = new + update * (hidden[0] - new)
        return output, output


def encoder_kinds(net, observations):
    """The kind of encoder of each observation, by name."""
    given = net.get("encoders", {})
    kinds = {}
    for each in observations:
        image = each["dtype"] == "uint8" and len(each["shape"]) == 3
        settings = given.get(each["name"], given.get("*", {}))
        kind = settings.get("kind", "conv" if image else "mlp")
        if kind not in _ENCODERS:
            raise ValueError(f"the encoder of observation {each['name']} is {kind!r}, troupe.load computes only {' and '.join(_ENCODERS)}")
        kinds[each["name"]] = kind
    return kinds
