"""Cells of a sweep on disk: one self-describing NetCDF file each. Needs xarray, h5py and h5netcdf.

A file holds what was measured, and as attributes the cell's settings, the experiment with its claims, the
versions, the seconds it took, and a digest of the rest: a file that was cut or altered is found out.
"""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussbell.records.files import versions, write_atomically

try:
    import h5py
    import xarray
except ImportError as error:
    raise ImportError("Sweeps need xarray and h5netcdf: pip install 'gaussbell[experiments]'.") from error

SUFFIX = ".nc"
ENGINE = "h5netcdf"
Cell = dict[str, Any]
"""Settings of one run, all that its outcome depends on: texts and numbers by name."""


def write_cell(
    path: Path, cell: Cell, measured: xarray.Dataset, *, about: Mapping[str, Any], seconds: float
) -> Path:
    """Write a cell; the file appears whole or not at all."""
    facts = {"cell": cell, "about": dict(about), "versions": versions()}
    texts = {name: json.dumps(fact, sort_keys=True) for name, fact in facts.items()}
    data = measured.assign_attrs(texts | {"seconds": seconds, "digest": _digest(measured, texts["cell"])})
    content = bytes(data.to_netcdf(None, engine=ENGINE))
    return write_atomically(path, lambda file: file.write(content))


def read_cell(path: Path) -> xarray.Dataset:
    """Read a cell; ValueError if the file is not just as it was written."""
    remedy = "delete it and run the experiment again, which makes it anew"
    content = Path(path).read_bytes()
    try:
        data = _read_plain(content)
        if data.attrs.get("digest") != _digest(data, data.attrs.get("cell", "")):
            data = xarray.load_dataset(io.BytesIO(content), engine=ENGINE)
    except Exception as error:  # HDF5 has many ways to say that a file is broken
        raise ValueError(f"path={path}: not a whole NetCDF file ({error}); {remedy}.") from error
    if data.attrs.get("digest") != _digest(data, data.attrs.get("cell", "")):
        raise ValueError(f"path={path}: its content does not match its digest; {remedy}.")
    return data


def _read_plain(content: bytes) -> xarray.Dataset:
    """A NetCDF file of plain numbers, in a seventh of the time that xarray takes; the digest is the proof."""
    with h5py.File(io.BytesIO(content), "r") as file:
        arrays: dict[str, Any] = {}
        for name, part in file.items():
            if not bytes(part.attrs.get("NAME", b"")).startswith(b"This is a netCDF dimension but not"):
                dims = [part.dims[k][0].name[1:] if len(part.dims[k]) else name for k in range(part.ndim)]
                arrays[name] = (dims, part[()])
        attributes = {name: value for name, value in file.attrs.items() if not name.startswith("_")}
    coords = {name: array for name, array in arrays.items() if array[0] == [name]}
    measured = {name: array for name, array in arrays.items() if name not in coords}
    return xarray.Dataset(measured, coords, attributes | {"seconds": np.ravel(attributes["seconds"])[0]})


def is_done(path: Path, cell: Cell) -> bool:
    """Is this cell, with just these settings, in a whole file?"""
    try:
        return settings_of(read_cell(path)) == json.loads(json.dumps(cell))
    except (FileNotFoundError, ValueError):
        return False


def settings_of(data: xarray.Dataset) -> Cell:
    """The settings of a cell that was read."""
    return json.loads(data.attrs["cell"])


def gather(paths: Sequence[Path]) -> xarray.Dataset:
    """Cells as one data set, a row each along the dimension "cell", with their settings as coordinates."""
    return join([read_cell(path) for path in paths])


def join(cells: Sequence[xarray.Dataset]) -> xarray.Dataset:
    """The same from cells that were read."""
    if not cells:
        raise ValueError("no cells there: run the experiment first (gaussbell reproduce NAME).")
    table = xarray.concat(
        cells, "cell", data_vars="all", coords="minimal", join="outer", combine_attrs="drop"
    )
    settings = [settings_of(cell) | {"seconds": float(cell.attrs["seconds"])} for cell in cells]
    names = dict.fromkeys(name for row in settings for name in row)
    labels = {name: ("cell", _column([row.get(name) for row in settings])) for name in names}
    versions_seen = list(dict.fromkeys(cell.attrs["versions"] for cell in cells))
    about = {"about": cells[0].attrs["about"], "versions": versions_seen}
    return table.assign_coords(labels).assign_attrs(about)


def _column(values: list[Any]) -> np.ndarray:
    """Texts, with "" for what is missing, or numbers, with NaN for it."""
    if any(isinstance(value, str) for value in values):
        return np.array(["" if value is None else str(value) for value in values])
    return np.array([np.nan if value is None else value for value in values])


def _digest(data: xarray.Dataset, cell: str) -> str:
    """A fingerprint of the settings and of every number."""
    seen = hashlib.sha256(cell.encode("utf-8"))
    for name in sorted(map(str, data.variables)):
        array = np.ascontiguousarray(data[name].values)
        seen.update(f"{name} {data[name].dims} {array.dtype.str} {array.shape}".encode())
        seen.update(array.tobytes())
    return seen.hexdigest()
