"""Policy solutions as files: JSON that people can read, and nothing in it that could run."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gaussbell import features, networks, records
from gaussbell.networks import without_features
from gaussbell.policies import Greedy
from gaussbell.policy_solution import PolicySolution, PolicyStatus, Sweep
from gaussbell.precision import in_double

FORMAT = 1
"""Rises when older programs could not read the file any more."""

MODULES = (
    networks.MLP,
    networks.FeatureNetwork,
    networks.PerAction,
    features.AsIs,
    features.Scale,
    features.Waves,
    features.Angles,
    features.Columns,
    features.OneHot,
    features.Chain,
    features.Beside,
)
ACTIVATIONS = (networks.bent_identity, networks.softplus, networks.tanh, networks.identity)
BY_NAME = {module.__name__: module for module in MODULES}
FUNCTIONS = {function.__name__: function for function in ACTIVATIONS}


class _NotOurs(Exception):
    """A part that the file can hold only by its numbers."""


def save_policy(path: Path | str, solution: PolicySolution) -> Path:
    """Write a solution of `policy_iteration`; the file appears whole or not at all.

    A network of our own kinds, with features before it, is described in full. Of any other the numbers are
    kept, and `load_policy(path, network=...)` needs such a network to fill.
    """
    try:
        network: Any = {"described": _describe(solution.network)}
    except _NotOurs:
        leaves = jax.tree.leaves(eqx.filter(without_features(solution.network), eqx.is_inexact_array))
        network = {"kind": type(solution.network).__name__, "numbers": [_array(leaf) for leaf in leaves]}
    record = {
        "format": FORMAT,
        "kind": "policy solution",
        "versions": records.versions(),
        "network": network,
        "num_actions": solution.policy.num_actions,
        "status": solution.status.name,
        "score": solution.score,
        "confirmed": solution.confirmed,
        "history": [sweep._asdict() for sweep in solution.history],
        "transitions": solution.transitions,
        "warnings": solution.warnings,
        "error": solution.error,
    }
    return records.write(Path(path), record)


@in_double
def load_policy(path: Path | str, network: Any = None) -> PolicySolution:
    """Read a solution that `save_policy` wrote; ValueError where the file is not one.

    Arguments: `network`, where the file says that it holds numbers only: a network of the same shape.
    """
    record = records.read(Path(path))
    if record.get("kind") != "policy solution":
        raise ValueError(f"path={path}: this is no policy solution; write one with gaussbell.save_policy.")
    if record.get("format", 0) > FORMAT:
        written = record.get("versions", {}).get("gaussbell", "a later version")
        raise ValueError(
            f"path={path}: written in a newer format, by gaussbell {written}; this is "
            f"{records.versions()['gaussbell']}, so install that one."
        )
    try:
        loaded = _load_network(record["network"], network, path)
        # What an older version did not write yet has a default.
        return PolicySolution(
            policy=Greedy(loaded, int(record["num_actions"])),
            network=loaded,
            status=PolicyStatus[record["status"]],
            score=_number(record.get("score")),
            confirmed=np.asarray(record.get("confirmed", ()), float),
            history=tuple(_sweep(entry) for entry in record.get("history", ())),
            transitions={name: int(count) for name, count in record.get("transitions", {}).items()},
            warnings=tuple(record.get("warnings", ())),
            error=str(record.get("error", "")),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"path={path}: the file lacks or garbles {error}; write it anew.") from error


def _load_network(kept: dict[str, Any], network: Any, path: Path | str) -> Any:
    if "described" in kept:
        return _build(kept["described"])
    if network is None:
        raise ValueError(
            f"path={path}: holds the numbers of a {kept['kind']} only; give load_policy(path, network=...) "
            "one of the same shape."
        )
    fitted, rest = eqx.partition(without_features(network), eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(fitted)
    arrays = [_numbers(entry) for entry in kept["numbers"]]
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
        return _array(part)
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
    return np.asarray(_numbers(plain)) if plain.get("host") else _numbers(plain)


def _array(values: Any) -> dict[str, Any]:
    array = np.asarray(values)
    return {
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "host": isinstance(values, np.ndarray),
        "values": array.ravel().tolist(),
    }


def _numbers(plain: dict[str, Any]) -> Any:
    return jnp.asarray(np.array(plain["values"], plain["dtype"]).reshape(plain["shape"]))


def _sweep(entry: dict[str, Any]) -> Sweep:
    """A sweep from the file; numbers that are not there are NaN."""
    found = {name: entry.get(name) for name in Sweep._fields}
    for name, value in found.items():
        if isinstance(value, list):
            found[name] = tuple(_number(item) for item in value)
        elif value is None:
            found[name] = np.nan
    return Sweep(**found)  # type: ignore[arg-type]


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)
