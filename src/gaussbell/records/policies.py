"""Policy solutions as files: JSON that people can read, and nothing in it that could run."""

from pathlib import Path
from typing import Any

import numpy as np

from gaussbell import records
from gaussbell.control.solution import PolicySolution, PolicyStatus, Sweep
from gaussbell.diagnostics.assessment import Assessment, Reference
from gaussbell.diagnostics.checks import Checks
from gaussbell.numerics.precision import in_double
from gaussbell.processes.policies import Greedy
from gaussbell.records.networks import load_network, save_network

FORMAT = 1
"""Rises when older programs could not read the file any more."""


def save_policy(path: Path | str, solution: PolicySolution) -> Path:
    """Write a solution of `policy_iteration`; the file appears whole or not at all.

    A network of our own kinds, with features before it, is described in full. Of any other the numbers are
    kept, and `load_policy(path, network=...)` needs such a network to fill.
    """
    record = {
        "format": FORMAT,
        "kind": "policy solution",
        "versions": records.versions(),
        "network": save_network(solution.network),
        "num_actions": solution.policy.num_actions,
        "status": solution.status.name,
        "score": solution.score,
        "confirmed": solution.confirmed,
        "history": [sweep._asdict() for sweep in solution.history],
        "transitions": solution.transitions,
        "warnings": solution.warnings,
        "assessment": None if solution.assessment is None else solution.assessment.to_dict(),
        "error": solution.error,
    }
    return records.write(Path(path), record)


@in_double
def load_policy(path: Path | str, network: Any = None) -> PolicySolution:
    """Read a solution that `save_policy` wrote; ValueError where the file is not one.

    Args:
        network: Where the file says that it holds numbers only: a network of the same shape.
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
        loaded = load_network(record["network"], network, path)
        # What an older version did not write yet has a default.
        return PolicySolution(
            policy=Greedy(loaded, int(record["num_actions"])),
            network=loaded,
            status=PolicyStatus[record["status"]],
            score=_number(record.get("score")),
            confirmed=np.asarray(record.get("confirmed", ()), float),
            history=tuple(_sweep(entry) for entry in record.get("history", ())),
            transitions={name: int(count) for name, count in record.get("transitions", {}).items()},
            assessment=read_assessment(record),
            error=str(record.get("error", "")),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"path={path}: the file lacks or garbles {error}; write it anew.") from error


def read_assessment(record: dict[str, Any]) -> Assessment | None:
    """The assessment in a record; of one that older versions wrote, its warnings."""
    plain = record.get("assessment")
    if plain is not None:
        return Assessment.from_dict(plain)
    reasons = tuple(map(str, record.get("warnings", ())))
    return Assessment(False, reasons, Reference.NONE, Checks(0, 0, 0.0)) if reasons else None


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
