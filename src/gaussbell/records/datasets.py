"""Logged data in files: Parquet, CSV and NumPy. Nothing is ever unpickled.

A table has one row a step and these columns: `state_0`, `state_1`, ...; `action` or `action_0`, ...;
`reward`; `next_state_0`, ...; and either `terminated`, `truncated` and `episode`, all optional, which make
a Log, or `discount` and optionally `weight` and `next_action`, which make Transitions.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussbell.data.frames import from_frame, from_minari, transitions_from_frame
from gaussbell.data.logs import Log, as_columns
from gaussbell.data.transitions import Transitions
from gaussbell.numerics.precision import on_host
from gaussbell.processes.actions import Actions
from gaussbell.records.files import write_atomically

TRANSITION_FIELDS = (
    "state",
    "reward",
    "next_state",
    "discount",
    "weight",
    "action",
    "next_action",
    "probability",
)
TRUTHS = {"true", "false"}
LOG_FIELDS = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")


def read(path: str | Path, *, actions: Actions | None = None, **columns: Any) -> Log:
    """Logged steps from a Parquet (.parquet), CSV (.csv) or NumPy (.npz) file; see `from_frame`."""
    return from_frame(_read_table(path), actions=actions, **columns)


def read_transitions(path: str | Path, **columns: Any) -> Transitions:
    """Transitions from such a file; see `transitions_from_frame`."""
    return transitions_from_frame(_read_table(path), **columns)


def write(path: str | Path, data: Log | Transitions) -> Path:
    """Write a Log or Transitions to a Parquet or NumPy file, whole or not at all.

    `read` and `read_transitions` read it back. Transitions with several successors go into .npz files.
    """
    path = Path(path)
    fields = TRANSITION_FIELDS if isinstance(data, Transitions) else LOG_FIELDS
    arrays = {
        name: np.asarray(on_host(getattr(data, name))) for name in fields if getattr(data, name) is not None
    }
    if path.suffix == ".npz":
        return write_atomically(path, lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))
    if path.suffix != ".parquet":
        raise ValueError(f"{path}: give a name that ends in .parquet or .npz.")
    if any(array.ndim > 2 for array in arrays.values()):
        raise ValueError(f"{path}: several successors do not fit a table; give a name that ends in .npz.")
    pyarrow, parquet = _pyarrow()
    table = pyarrow.table(as_columns(arrays))
    return write_atomically(path, lambda file: parquet.write_table(table, file))


def _read_table(path: str | Path) -> Any:
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file.")
    readers: dict[str, Callable[[Path], Any]] = {
        ".parquet": _read_parquet,
        ".csv": _read_csv,
        ".npz": _read_arrays,
    }
    if path.suffix not in readers:
        raise ValueError(f"{path}: its kind is not known; give one of {', '.join(readers)}.")
    return readers[path.suffix](path)


def _read_parquet(path: Path) -> Any:
    pyarrow, parquet = _pyarrow()
    try:
        return parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]}) It may have been cut short: "
            "write or copy it again."
        ) from error


def _read_csv(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            names, *rows = [row for row in csv.reader(file) if row]
        columns = list(zip(*rows, strict=True))
    except (ValueError, csv.Error) as error:
        raise ValueError(
            f"{path}: cannot be read as a table with a head and one line a step, all of one length ({error})."
        ) from error
    if rows and len(columns) != len(names):
        raise ValueError(f"{path}: its head names {len(names)} columns; its lines have {len(columns)}.")
    return {name.strip(): _from_texts(texts) for name, texts in zip(names, columns, strict=False)}


def _from_texts(texts: Sequence[str]) -> np.ndarray:
    """A column of a text file: numbers, truth values, or texts; nothing is NaN."""
    try:
        return np.array([text.strip() or "nan" for text in texts], float)
    except ValueError:
        lowered = {text.strip().lower() for text in texts}
        if lowered <= TRUTHS:
            return np.array([text.strip().lower() == "true" for text in texts])
        return np.array(texts)


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: cannot be read as a NumPy file of arrays ({error}).") from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("Parquet files need: pip install 'gaussbell[data]'.") from error
    return pyarrow, parquet


__all__ = ["from_frame", "from_minari", "read", "read_transitions", "transitions_from_frame", "write"]
