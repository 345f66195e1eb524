"""Logged data from tables: frames of pandas and polars, PyArrow, dictionaries, and Minari."""

import math
import warnings
from typing import Any

import numpy as np

from gaussbell.data.logs import Log
from gaussbell.data.transitions import Transitions, check_finite
from gaussbell.numerics.arguments import read_concrete
from gaussbell.processes.actions import Actions, read_actions

VECTORS = ("state", "action", "next_state", "next_action")
SCALARS = ("reward", "discount", "weight", "terminated", "truncated", "episode")
ENDS = ("terminated", "truncated", "episode")
"""Columns of which one at least says where episodes end."""


def from_frame(frame: Any, *, actions: Actions | None = None, **columns: Any) -> Log:
    """Logged steps from a pandas or polars frame, a PyArrow table, or a dictionary of columns.

    Args:
        actions: The set of legal actions: needed for off-policy evaluation.
        columns: Where names differ from ours: one column's name or a list of them, for example state=["x",
            "v"], reward="r", terminated="failed". Without columns for `next_state` the next row's state is
            taken; the last step of an episode is then dropped unless it is terminated. Episodes may have
            labels of any kind.

    Example:
        >>> import gaussbell as gb
        >>> table = {"x": [0.0, 1.0], "push": [0, 1], "r": [1.0, 0.0], "terminated": [False, True]}
        >>> log = gb.datasets.from_frame(table, state="x", action="push", reward="r")
        >>> log.next_state[0].tolist(), log.terminated.tolist()
        ([1.0], [False, True])
    """
    arrays = _read_arrays(frame, columns)
    if "discount" in arrays:
        raise ValueError(
            "discount: a table with this column holds transitions; read it with transitions_from_frame (or "
            "read_transitions)."
        )
    if "action" not in arrays:
        raise ValueError("action: the frame has no such column; say which holds it: action=...")
    if not any(name in arrays for name in ENDS):
        warnings.warn(
            "terminated, truncated, episode: the frame has none of these columns, so its "
            f"{len(arrays['reward']):,} steps are read as one episode that never ends. Say which columns "
            "hold them: episode=..., terminated=...",
            stacklevel=2,
        )
    if "next_state" not in arrays:
        arrays = _shift(arrays)
    return Log(**arrays, actions=actions)  # type: ignore[arg-type]


def transitions_from_frame(frame: Any, **columns: Any) -> Transitions:
    """Transitions, with a column `discount`, from the same kinds of tables.

    Example:
        >>> import gaussbell as gb
        >>> table = {"state": [0.0, 1.0], "reward": [1.0, 0.0], "next_state": [1.0, 0.0]}
        >>> table["discount"] = [0.9, 0.9]
        >>> len(gb.datasets.transitions_from_frame(table))
        2
    """
    arrays = _read_arrays(frame, columns)
    for name in ("discount", "next_state"):
        if name not in arrays:
            raise ValueError(
                f"{name}: the frame has no such column; say which holds it: {name}=... Logged steps without "
                "a discount are read with from_frame (or read)."
            )
    return Transitions(**arrays)


def _read_arrays(frame: Any, columns: dict[str, Any]) -> dict[str, np.ndarray]:
    """What a table holds, by our names."""
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
    return arrays


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
    parts = [_read_column(name, column, _values(frame[column])) for column in found]
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise ValueError(f"{name}: its columns have {sorted(lengths)} rows; give columns of one length.")
    if len(parts) == 1:
        whole = parts[0]
        return whole[:, None] if name in ("state", "next_state") and whole.ndim == 1 else whole
    return np.stack(parts, axis=1)


def _read_column(name: str, column: str, values: Any) -> np.ndarray:
    about = f"{name} (column {column})"
    if name == "episode" and values is not None:
        return _number(about, np.asarray(values).tolist())
    try:
        array = read_concrete(about, values)
    except ValueError as error:
        if values is None or not any(isinstance(value, str) for value in values):
            raise
        raise ValueError(f"{error} Give numbers: code each text by one of them, from 0 on.") from error
    if name in ENDS:
        check_finite(about, array)
    return array


def _number(about: str, labels: list[Any]) -> np.ndarray:
    """Labels of any kind by numbers, as they appear."""
    if any(label is None or (isinstance(label, float) and math.isnan(label)) for label in labels):
        raise ValueError(f"{about}: some steps have no label; give each the one of its episode.")
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], float)


def _values(column: Any) -> Any:
    return column.to_numpy() if hasattr(column, "to_numpy") else column


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


def _vectors(observations: Any) -> np.ndarray:
    if isinstance(observations, dict | tuple):
        raise ValueError("dataset: its observations are dictionaries or tuples; give vectors of numbers.")
    seen = np.asarray(observations, float)
    if seen.ndim > 2:
        raise ValueError(
            f"dataset: its observations have shape {seen.shape[1:]}, such as images; give vectors."
        )
    return seen[:, None] if seen.ndim == 1 else seen
