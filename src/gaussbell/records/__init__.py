"""Records: what a run was, what it found, and with which versions.

A run is one JSON file (`write`, `read`). A sweep of many runs has one NetCDF file a cell, with the same facts
in it, and `open` makes one labelled data set of them. Every file appears whole or not at all, and nothing is
ever unpickled.
"""

from pathlib import Path
from typing import Any

from gaussbell.records.files import read, to_plain, versions, write, write_atomically, write_text


def open(folder: Path | str) -> Any:
    """All cells of a sweep below `folder`, as one labelled xarray data set: along "cell", a row for each.

    Settings of the cells are coordinates, so that `data.where(data.method == "...", drop=True)` selects some;
    numbers that a cell does not have are NaN. Needs the extra `experiments`.
    """
    from gaussbell.records import cells  # noqa: PLC0415 - needs xarray

    return cells.gather(sorted(Path(folder).rglob(f"*{cells.SUFFIX}")))


__all__ = ["open", "read", "to_plain", "versions", "write", "write_atomically", "write_text"]
