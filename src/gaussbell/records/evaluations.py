"""Evaluations as files: a fitted network with the data it was fitted to, for a later look."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from gaussbell import records
from gaussbell.data.transitions import Transitions
from gaussbell.numerics.precision import in_double
from gaussbell.optimise.solution import Solution
from gaussbell.processes.markov_chain import MarkovChain
from gaussbell.records.networks import load_network, read_array, save_network, write_array

FORMAT = 1
"""Rises when older programs could not read the file any more."""
KIND = "evaluation"


class Evaluation(NamedTuple):
    """A fitted network, its data, the inputs of a chain's states, how the solve ended, and its losses.

    `problem` names what was evaluated, where that is a problem that comes along, and `options` are those that
    its environment was made with.
    """

    network: Any
    data: Transitions | MarkovChain
    features: np.ndarray | None
    status: str
    losses: np.ndarray
    problem: str | None
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


def save_evaluation(
    path: Path | str,
    solution: Solution,
    data: Transitions | MarkovChain,
    *,
    features: Any = None,
    problem: str | None = None,
    options: dict[str, Any] | None = None,
) -> Path:
    """Write a solution of `evaluate` with its data, for `gaussbell diagnose`; whole or not at all.

    Networks are kept as by `save_policy`.

    Args:
        features: As they were given to `evaluate`.
        problem, options: The name of a problem that comes along and what its environment was made with.
    """
    record = {
        "format": FORMAT,
        "kind": KIND,
        "versions": records.versions(),
        "problem": problem,
        "options": options or {},
        "network": save_network(solution.network),
        "data": _plain_data(data),
        "features": None if features is None else write_array(np.asarray(features)),
        "status": solution.status.name,
        "losses": np.asarray(solution.history.loss),
    }
    return records.write(Path(path), record)


@in_double
def load_evaluation(path: Path | str, network: Any = None) -> Evaluation:
    """Read what `save_evaluation` wrote; ValueError where the file is not one.

    Args:
        network: Where the file says that it holds numbers only: a network of the same shape.
    """
    record = records.read(Path(path))
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise ValueError(
            f"path={path}: this is no evaluation; write one with gaussbell.save_evaluation, or with "
            "`gaussbell evaluate ... --out DIR`."
        )
    if record.get("format", 0) > FORMAT:
        written = record.get("versions", {}).get("gaussbell", "a later version")
        raise ValueError(f"path={path}: written in a newer format, by gaussbell {written}; install that one.")
    try:
        features = record.get("features")
        return Evaluation(
            load_network(record["network"], network, path),
            _read_data(record["data"]),
            None if features is None else np.asarray(read_array(features)),
            str(record["status"]),
            np.asarray(record.get("losses", ()), float),
            record.get("problem"),
            dict(record.get("options") or {}),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"path={path}: the file lacks or garbles {error}; write it anew.") from error


def _plain_data(data: Transitions | MarkovChain) -> dict[str, Any]:
    if isinstance(data, MarkovChain):
        matrix = data.transition.tocoo()
        return {
            "discount": data.discount,
            "reward": write_array(data.reward),
            "row": write_array(matrix.row),
            "column": write_array(matrix.col),
            "probability": write_array(matrix.data),
        }
    return {name: write_array(np.asarray(value)) for name, value in vars(data).items() if value is not None}


def _read_data(plain: dict[str, Any]) -> Transitions | MarkovChain:
    arrays = {name: np.asarray(read_array(part)) for name, part in plain.items() if isinstance(part, dict)}
    if "row" not in arrays:
        return Transitions(**arrays)
    reward = arrays["reward"]
    places = (arrays["row"], arrays["column"])
    transition = scipy.sparse.csr_array((arrays["probability"], places), shape=(len(reward),) * 2)
    return MarkovChain(transition, reward, float(plain["discount"]))
