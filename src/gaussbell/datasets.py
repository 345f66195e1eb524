"""Logged data from frames, files and Minari, and back to files. Nothing is ever unpickled.

A table has one row a step and these columns: `state_0`, `state_1`, ...; `action` or `action_0`, ...;
`reward`; `next_state_0`, ...; and either `terminated`, `truncated` and `episode`, all optional, which make
a Log, or `discount` and optionally `weight` and `next_action`, which make Transitions.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gaussbell.actions import Actions
from gaussbell.environments.spaces import read_actions
from gaussbell.logs import Log
from gaussbell.precision import on_host, read_concrete
from gaussbell.records import write_atomically
from gaussbell.transitions import Transitions

VECTORS = ("state", "action", "next_state", "next_action")
SCALARS = ("reward", "discount", "weight", "terminated", "truncated", "episode")


def from_frame(frame: Any, *, actions: Actions | None = None, **columns: Any) -> Log | Transitions:
    """A Log, or Transitions, from a pandas or polars frame, a PyArrow table, or a dictionary of columns.

    Arguments: `actions`, the set of legal actions, for a Log; `columns`, where names differ from ours: one
    column's name or a list of them, for example state=["x", "v"], reward="r". Without columns for
    `next_state` the next row's state is taken; the last step of an episode is then dropped unless it is
    terminated.

    >>> import gaussbell as gb
    >>> table = {"x": [0.0, 1.0], "push": [0, 1], "r": [1.0, 0.0], "terminated": [False, True]}
    >>> log = gb.datasets.from_frame(table, state="x", action="push", reward="r")
    >>> log.next_state[0].tolist(), log.terminated.tolist()
    ([1.0], [False, True])
    """
    names = list(frame) if isinstance(frame, dict) else _column_names(frame)
    unknown = set(columns) - set(VECTORS) - set(SCALARS)
    if unknown:
        raise ValueError(
            f"{sorted(unknown)[0]}: columns can be named for {', '.join(VECTORS + SCALARS)} only."
        )
    found = {name: _find(name, names, columns.get(name)) for name in VECTORS + SCALARS}
    arrays = {name: _read(frame, name, found[name]) for name in found if found[name]}
    for name in ("state", "reward"):
        if name not in arrays:
            raise ValueError(
                f"{name}: the frame has columns {', '.join(map(str, names[:12]))}; say which hold it: "
                f"{name}=..."
            )
    if "discount" in arrays:
        return Transitions(**_with_successors(arrays))
    if "action" not in arrays:
        raise ValueError("action: the frame has no such column; say which holds it: action=...")
    if "next_state" not in arrays:
        arrays = _shift(arrays)
    return Log(**_with_successors(arrays), actions=actions)


def read(path: str | Path, *, actions: Actions | None = None, **columns: Any) -> Log | Transitions:
    """A Log, or Transitions, from a Parquet (.parquet), CSV (.csv) or NumPy (.npz) file; see `from_frame`."""
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
    return from_frame(readers[path.suffix](path), actions=actions, **columns)


def write(path: str | Path, data: Log | Transitions) -> Path:
    """Write a Log or Transitions to a Parquet or NumPy file, whole or not at all; `read` reads it back.

    Rows with several successors go into .npz files.
    """
    path = Path(path)
    fields = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")
    if isinstance(data, Transitions):
        fields = (
            "state",
            "reward",
            "next_state",
            "discount",
            "weight",
            "action",
            "next_action",
            "probability",
        )
    arrays = {
        name: np.asarray(on_host(getattr(data, name))) for name in fields if getattr(data, name) is not None
    }
    if path.suffix == ".npz":
        return write_atomically(path, lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))
    if path.suffix != ".parquet":
        raise ValueError(f"{path}: give a name that ends in .parquet or .npz.")
    if any(array.ndim > 2 for array in arrays.values()):
        raise ValueError(f"{path}: rows with several successors do not fit a table; give a name in .npz.")
    pyarrow, parquet = _pyarrow()
    table = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            table[name] = array
        else:
            table |= {f"{name}_{k}": array[:, k] for k in range(array.shape[1])}
    return write_atomically(path, lambda file: parquet.write_table(pyarrow.table(table), file))


def from_minari(dataset: Any) -> Log:
    """The steps of a Minari data set, by its id or as `minari.load_dataset` returns it.

    Observations must be vectors or whole numbers; actions are Discrete or one-dimensional Box.
    """
    if isinstance(dataset, str):
        try:
            import minari  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ImportError("Minari data sets need: pip install 'gaussbell[minari]'.") from error
        try:
            dataset = minari.load_dataset(dataset)
        except (FileNotFoundError, ValueError, KeyError) as error:
            raise ValueError(
                f"minari:{dataset}: it cannot be loaded ({str(error).splitlines()[0]}) See "
                f"minari.list_local_datasets()."
            ) from error
    actions, first = read_actions(dataset.action_space)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("state", "action", "reward", "next_state")}
    parts |= {name: [] for name in ("terminated", "truncated", "episode")}
    for number, episode in enumerate(dataset.iterate_episodes()):
        seen = _vectors(episode.observations)
        steps = len(episode.rewards)
        parts["state"].append(seen[:-1])
        parts["next_state"].append(seen[1:])
        parts["action"].append(np.asarray(episode.actions, float) - first)
        parts["reward"].append(np.asarray(episode.rewards, float))
        parts["terminated"].append(np.asarray(episode.terminations, bool))
        parts["truncated"].append(np.asarray(episode.truncations, bool))
        parts["episode"].append(np.full(steps, number))
    if not parts["state"]:
        raise ValueError("dataset: it has no episodes.")
    return Log(**{name: np.concatenate(part) for name, part in parts.items()}, actions=actions)


def _column_names(frame: Any) -> list[str]:
    for attribute in ("column_names", "columns"):
        names = getattr(frame, attribute, None)
        if names is not None and not callable(names):
            return [str(name) for name in names]
    raise ValueError(
        f"frame: got {type(frame).__name__}; give a pandas or polars frame, a PyArrow table, or a dictionary."
    )


def _find(name: str, names: list[str], given: Any) -> list[str]:
    """The columns that hold `name`: those given, one of that name, or name_0, name_1 and so on."""
    if given is not None:
        wanted = [given] if isinstance(given, str) else list(given)
        missing = [column for column in wanted if column not in names]
        if missing:
            raise ValueError(f"{name}: there is no column {missing[0]!r}; there are {', '.join(names[:12])}.")
        return wanted
    if name in names:
        return [name]
    numbered = [
        column for column in names if column.startswith(f"{name}_") and column[len(name) + 1 :].isdigit()
    ]
    return sorted(numbered, key=lambda column: int(column[len(name) + 1 :])) if name in VECTORS else []


def _read(frame: Any, name: str, found: list[str]) -> np.ndarray:
    parts = [read_concrete(f"{name} (column {column})", _values(frame[column])) for column in found]
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise ValueError(f"{name}: its columns have {sorted(lengths)} rows; give columns of one length.")
    if len(parts) == 1:
        whole = parts[0]
        return whole[:, None] if name in ("state", "next_state") and whole.ndim == 1 else whole
    return np.stack(parts, axis=1)


def _values(column: Any) -> Any:
    return column.to_numpy() if hasattr(column, "to_numpy") else column


def _with_successors(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if "next_state" not in arrays:
        raise ValueError("next_state: the frame has no such columns; say which hold it: next_state=...")
    return arrays


def _shift(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Successors from the rows that follow, within each episode."""
    count = len(arrays["state"])
    terminated = arrays.get("terminated", np.zeros(count)) != 0
    over = terminated | (arrays.get("truncated", np.zeros(count)) != 0)
    episode = arrays.get("episode", np.concatenate([[0], np.cumsum(over)[:-1]]))
    follows = np.append(episode[1:] == episode[:-1], False)
    successor = np.where(follows[:, None], np.roll(arrays["state"], -1, axis=0), np.nan)
    kept = follows | terminated
    return {
        name: array[kept] for name, array in (arrays | {"episode": episode, "next_state": successor}).items()
    }


def _read_parquet(path: Path) -> Any:
    pyarrow, parquet = _pyarrow()
    try:
        return parquet.read_table(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(
            f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]}) It may have been cut "
            f"short: write or "
            "copy it again."
        ) from error


def _read_csv(path: Path) -> dict[str, np.ndarray]:
    try:
        table = np.genfromtxt(path, delimiter=",", names=True, dtype=float, encoding="utf-8")
    except ValueError as error:
        raise ValueError(
            f"{path}: cannot be read as a table of numbers ({str(error).splitlines()[0]})"
        ) from error
    return {name: np.atleast_1d(table[name]) for name in table.dtype.names or ()}


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


def _vectors(observations: Any) -> np.ndarray:
    if isinstance(observations, dict | tuple):
        raise ValueError("dataset: its observations are dictionaries or tuples; give vectors of numbers.")
    seen = np.asarray(observations, float)
    if seen.ndim > 2:
        raise ValueError(
            f"dataset: its observations have shape {seen.shape[1:]}, such as images; give vectors."
        )
    return seen[:, None] if seen.ndim == 1 else seen
