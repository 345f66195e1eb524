"""Time to the first result: programs that are compiled in haste, and programs that are kept on disk."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from gaussbell.numerics.precision import is_traced

P = ParamSpec("P")
T = TypeVar("T")

MOST_BYTES = 256 * 2**20
"""How much of the disk kept programs may take; the oldest ones go first."""


def compiled_in_haste(function: Callable[P, T]) -> Callable[P, T]:
    """A program that runs once or twice: compiled without optimisations, in half the time.

    Inside another program it is a part of that one.
    """
    options: Any = {"compiler_options": {"xla_backend_optimization_level": 0}}
    compiled: Any = eqx.filter_jit(function, **options)

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        inside = is_traced((args, kwargs)) or is_traced(jnp.zeros(()))
        return function(*args, **kwargs) if inside else compiled(*args, **kwargs)

    return wrapper


def keep_compiled(folder: Path | str | None = None, *, max_bytes: int = MOST_BYTES) -> Path:
    """Keep what JAX compiles in a folder, for all of this program: one line at its top.

        gaussbell.keep_compiled()

    It takes the first `evaluate` of a process from seconds to a fraction of one. It changes settings of JAX
    for the whole process, so gaussbell does it by itself only on the command line.

    Args:
        folder: By default what JAX_COMPILATION_CACHE_DIR says, or gaussbell in the user's cache folder.
        max_bytes: How large it may be; what is older goes now.

    Returns:
        The folder.
    """
    given = folder or os.environ.get("JAX_COMPILATION_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(given) if given else home / "gaussbell" / "jax"
    path.mkdir(parents=True, exist_ok=True)
    _prune(path, max_bytes)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return path


def _prune(folder: Path, max_bytes: int) -> None:
    """Remove the oldest programs, until the others take no more than `max_bytes`."""
    kept = [(file, file.stat()) for file in folder.glob("*-cache")]
    kept.sort(key=lambda entry: -entry[1].st_mtime)
    total = 0
    for file, about in kept:
        total += about.st_size
        if total > max_bytes:
            file.unlink(missing_ok=True)
