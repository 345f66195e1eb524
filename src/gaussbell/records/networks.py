"""Networks as plain data: what a file can hold of them, and nothing in it that could run."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gaussbell import networks
from gaussbell.networks import features
from gaussbell.networks.value_function import without_features
from gaussbell.processes import actions, policies

MODULES = (
    networks.MLP,
    networks.FeatureNetwork,
    networks.PerAction,
    features.Identity,
    features.Scale,
    features.Fourier,
    features.Angles,
    features.Columns,
    features.OneHot,
    features.Chain,
    features.Concatenate,
    features.PolicyAction,
    policies.AlongVelocity,
    actions.DiscreteActions,
)
ACTIVATIONS = (networks.bent_identity, networks.softplus, networks.tanh, networks.identity)
BY_NAME = {module.__name__: module for module in MODULES}
FUNCTIONS = {function.__name__: function for function in ACTIVATIONS}


class _NotOurs(Exception):
    """A part that the file can hold only by its numbers."""


def save_network(network: Any) -> dict[str, Any]:
    """A network of our own kinds, with features before it, in full; of any other the numbers only."""
    try:
        return {"described": _describe(network)}
    except _NotOurs:
        leaves = jax.tree.leaves(eqx.filter(without_features(network), eqx.is_inexact_array))
        return {"kind": type(network).__name__, "numbers": [write_array(leaf) for leaf in leaves]}


def load_network(kept: dict[str, Any], network: Any, path: Path | str) -> Any:
    """The network of a file; where that holds numbers only, `network`, of that shape, filled with them."""
    if "described" in kept:
        return _build(kept["described"])
    if network is None:
        raise ValueError(
            f"path={path}: holds the numbers of a {kept['kind']} only; load it from Python with network=..., "
            "one of the same shape."
        )
    fitted, rest = eqx.partition(without_features(network), eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(fitted)
    arrays = [read_array(entry) for entry in kept["numbers"]]
    if [leaf.shape for leaf in leaves] != [array.shape for array in arrays]:
        raise ValueError(
            f"network: its arrays have shapes {[leaf.shape for leaf in leaves]}; the file's have "
            f"{[array.shape for array in arrays]}."
        )
    filled = eqx.combine(jax.tree.unflatten(tree, arrays), rest)
    if isinstance(network, networks.FeatureNetwork):
        return networks.FeatureNetwork(network.features, filled)
    return filled


def _describe(part: Any) -> Any:
    """A network as plain data: its kind by name, and what it is made of."""
    if type(part) in MODULES:
        fields = {field.name: _describe(getattr(part, field.name)) for field in dataclasses.fields(part)}
        return {"module": type(part).__name__, "fields": fields}
    if part in ACTIVATIONS if callable(part) else False:
        return {"function": part.__name__}
    if isinstance(part, np.ndarray | jax.Array):
        return write_array(part)
    if isinstance(part, tuple | list):
        return {"items": [_describe(item) for item in part]}
    if isinstance(part, bool | int | float | str | None):
        return part
    raise _NotOurs


def _build(plain: Any) -> Any:
    """The reverse of `_describe`, for kinds on its list only."""
    if not isinstance(plain, dict):
        return plain
    if "module" in plain:
        module = BY_NAME[plain["module"]]
        made = object.__new__(module)
        for name in (field.name for field in dataclasses.fields(module)):
            object.__setattr__(made, name, _build(plain["fields"][name]))
        return made
    if "function" in plain:
        return FUNCTIONS[plain["function"]]
    if "items" in plain:
        return tuple(_build(item) for item in plain["items"])
    return np.asarray(read_array(plain)) if plain.get("host") else read_array(plain)


def write_array(values: Any) -> dict[str, Any]:
    """An array as plain data."""
    array = np.asarray(values)
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "host": isinstance(values, np.ndarray),
        "values": array.ravel().tolist(),
    }


def read_array(plain: dict[str, Any]) -> Any:
    """The array that `write_array` wrote."""
    return jnp.asarray(np.array(plain["values"], plain["dtype"]).reshape(plain["shape"]))
