"""An experiment as cells, each a file: interrupted, it goes on where it stopped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from gaussbell import records

Cell = dict[str, Any]


def run_cells(
    cells: list[Cell],
    folder: Path,
    measure: Callable[[Cell], dict[str, Any]],
    *,
    name: Callable[[Cell], str],
    shape: Callable[[Cell], Any],
    told: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure the cells that have no file yet; all of them, as read from their files.

    Arguments: `shape`, what decides which programs are compiled: where it changes, the old ones are dropped.
    """
    for number, cell in enumerate(cells):
        path = folder / "cells" / f"{name(cell)}.json"
        if path.exists():
            continue
        told(f"{number + 1} of {len(cells)}: {name(cell)}")
        records.write(path, cell | measure(cell))
        if number + 1 < len(cells) and shape(cells[number + 1]) != shape(cell):
            jax.clear_caches()  # many compiled programs use up a process's memory maps
    return [records.read(folder / "cells" / f"{name(cell)}.json") for cell in cells]


def select(cells: list[Cell], **wanted: Any) -> list[Cell]:
    """The cells with these settings."""
    return [cell for cell in cells if all(cell.get(name) == value for name, value in wanted.items())]
