"""Plain records as JSON files that appear whole or not at all."""

import importlib.metadata
import json
import math
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

PACKAGES = ("gaussbell", "jax", "equinox", "numpy", "scipy")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that results depend on."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}


def to_plain(value: Any) -> Any:
    """Arrays as lists and numbers that JSON has no word for (NaN, infinity) as null."""
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, bool | int | str | None):
        return value
    array = np.asarray(value)
    if array.ndim:
        return to_plain(array.tolist())
    number = array.item()
    return None if isinstance(number, float) and not math.isfinite(number) else number


def write(path: Path, record: dict[str, Any]) -> Path:
    """Write a record as JSON; the file appears whole or not at all."""
    text = json.dumps(to_plain(record), indent=1, allow_nan=False)
    return write_text(path, text + "\n")


def write_text(path: Path, text: str) -> Path:
    """Write text; the file appears whole or not at all."""
    return write_atomically(path, lambda file: file.write(text.encode("utf-8")))


def write_atomically(path: Path, fill: Callable[[BinaryIO], Any]) -> Path:
    """Let `fill` write to a temporary file beside `path`, and rename it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def read(path: Path) -> dict[str, Any]:
    """Read a record; ValueError if the file is not a whole one."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"path={path}: not a whole JSON record ({error}); make it anew.") from error
    if not isinstance(record, dict):
        raise ValueError(f"path={path}: a record is a JSON object; this is a {type(record).__name__}.")
    return record
