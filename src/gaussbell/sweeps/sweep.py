"""Sweeps: many cells on an executor, each a file, so that a second run goes on where the first was cut.

Any `concurrent.futures` executor does: processes of this machine, one thread each (`local_processes`), or a
Dask cluster (`dask_cluster`). Workers compute; only the one who asked writes, so a cluster needs no shared
disk. A cell's outcome depends on its settings alone, never on the worker or on what ran before.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    as_completed,
)
from pathlib import Path
from typing import Any, NamedTuple

import jax

from gaussbell.records.cells import SUFFIX, Cell, is_done, write_cell, xarray
from gaussbell.records.files import write
from gaussbell.sweeps.executors import OpenExecutor

MOST_BREAKS = 3
"""How often in a row workers may die before a cell is finished."""

TASK_SECONDS = 30.0
"""Cells of a group are handed out together, for about so long: compiling takes as long as some cells do."""

MOST_GROUPS = 12
"""Groups whose programs a worker remembers: many more would use up the memory maps of its process."""


class Sweep(NamedTuple):
    """What to run: cells, what measures one, and what to call them.

    Args:
        measure: A function at the top of a module, from a cell to an xarray data set.
        name: The name of a cell's file.
        group: Cells of one group compile the same programs and run one after the other.
        cost: About how many seconds a cell takes.
        about: Facts that every file should hold.
    """

    cells: list[Cell]
    measure: Callable[[Cell], xarray.Dataset]
    name: Callable[[Cell], str]
    group: Callable[[Cell], Any]
    cost: Callable[[Cell], float]
    about: Mapping[str, Any]


class SweepProgress(NamedTuple):
    """Cells that are done, all cells, and the same in units of their cost."""

    done: int
    total: int
    done_cost: float
    total_cost: float


class SweepFailed(RuntimeError):
    """Raised where cells could not be measured or written; those that were are kept."""


def cell_path(sweep: Sweep, folder: Path, cell: Cell) -> Path:
    """Where a cell's file is."""
    return folder / "cells" / f"{sweep.name(cell)}{SUFFIX}"


def run_sweep(
    sweep: Sweep,
    folder: Path,
    open_executor: OpenExecutor,
    on_progress: Callable[[SweepProgress], None] | None = None,
) -> list[Path]:
    """Run the cells that have no whole file in `folder` yet; the files of all of them.

    Workers that die (killed, or out of memory) are replaced. A cell that raises an error does not stop the
    others: SweepFailed names it in the end.
    """
    paths = [cell_path(sweep, folder, cell) for cell in sweep.cells]
    if len(set(paths)) < len(paths):
        raise ValueError("cells: two have the same name, and would write the same file.")
    todo = [cell for cell, path in zip(sweep.cells, paths, strict=True) if not is_done(path, cell)]
    run = _Run(sweep, folder, _grouped(sweep, todo), on_progress)
    if todo:
        run.announce()
    breaks = 0
    while run.todo:
        before = len(run.todo)
        try:
            with open_executor() as executor:
                run.drain(executor)
        except BrokenExecutor as error:
            breaks = 1 if len(run.todo) < before else breaks + 1
            if breaks >= MOST_BREAKS:
                raise SweepFailed(
                    f"worker processes died {breaks} times in a row (killed, or out of memory?). "
                    f"{len(paths) - len(run.todo)} of {len(paths)} cells are kept in {folder}; run again, "
                    "perhaps with fewer workers, to go on."
                ) from error
    if run.errors:
        name, error = next(iter(run.errors.items()))
        raise SweepFailed(
            f"{len(run.errors)} of {len(paths)} cells failed, {name} with {error}. The others are kept in "
            f"{folder}; run again to try these once more."
        )
    for left in (folder / "cells").glob(f".*{SUFFIX}.*"):  # by a run that was killed while it wrote
        left.unlink(missing_ok=True)
    return paths


class Outcome(NamedTuple):
    """What became of a cell: a data set and the seconds it took, or what went wrong."""

    measured: xarray.Dataset | None
    seconds: float
    error: str = ""


class _Run:
    """The cells still to do, and what went wrong."""

    def __init__(self, sweep: Sweep, folder: Path, todo: list[Cell], on_progress: Any):
        self.sweep, self.folder, self.on_progress = sweep, folder, on_progress
        self.todo = {cell_path(sweep, folder, cell): cell for cell in todo}
        self.errors: dict[str, str] = {}
        self._cost = sum(map(sweep.cost, sweep.cells))
        self._cost_left = sum(map(sweep.cost, todo))
        self._tell()

    def announce(self) -> None:
        """Say in the folder how many cells there will be, for who watches it."""
        self._keep(lambda: write(self.folder / "sweep.json", {"cells": len(self.sweep.cells)}))

    def drain(self, executor: Executor) -> None:
        """Hand out the cells, a few of a group at a time, and write each as it comes back."""
        sweep, futures = self.sweep, {}
        for task in _tasks(sweep, list(self.todo.items())):
            cells, group = [cell for _, cell in task], json.dumps(sweep.group(task[0][1]))
            futures[executor.submit(measure_cells, sweep.measure, cells, group)] = [path for path, _ in task]
        for future in as_completed(futures):
            for path, outcome in zip(futures[future], self._outcomes(future, futures[future]), strict=True):
                if outcome.measured is None:
                    self.errors[path.stem] = outcome.error
                else:
                    self._write(path, outcome.measured, outcome.seconds)
                self._cost_left -= sweep.cost(self.todo.pop(path))
                self._tell()

    def _outcomes(self, future: Future, paths: list[Path]) -> list[Outcome]:
        """What came back for these cells; a cluster may give some up."""
        try:
            error = future.exception()
        except CancelledError as cancelled:
            raise SweepFailed(
                "the workers are gone (has the scheduler stopped?). "
                f"{len(self.sweep.cells) - len(self.todo)} of {len(self.sweep.cells)} cells are kept in "
                f"{self.folder}; run again to go on."
            ) from cancelled
        if isinstance(error, BrokenExecutor):
            raise error
        if error is not None:
            return [Outcome(None, 0.0, f"{type(error).__name__}: {error}")] * len(paths)
        return future.result()

    def _write(self, path: Path, measured: xarray.Dataset, seconds: float) -> None:
        cell, about = self.todo[path], self.sweep.about
        self._keep(lambda: write_cell(path, cell, measured, about=about, seconds=seconds))

    def _keep(self, write_file: Callable[[], Any]) -> None:
        """Write a file, or say that it cannot be."""
        try:
            write_file()
        except OSError as error:
            kept = len(self.sweep.cells) - len(self.todo)
            raise SweepFailed(
                f"{self.folder}: cannot be written to ({error.strerror}). {kept} of {len(self.sweep.cells)} "
                "cells are kept; make room, or the folder writable, and run again to go on."
            ) from error

    def _tell(self) -> None:
        if self.on_progress is None:
            return
        total = len(self.sweep.cells)
        done_cost = self._cost - self._cost_left
        self.on_progress(SweepProgress(total - len(self.todo), total, done_cost, self._cost))


_groups_compiled: set[str] = set()


def measure_cells(measure: Callable[[Cell], xarray.Dataset], cells: list[Cell], group: str) -> list[Outcome]:
    """What a worker does: measure some cells of a group."""
    if len(_groups_compiled | {group}) > MOST_GROUPS:
        jax.clear_caches()
        _groups_compiled.clear()
    _groups_compiled.add(group)
    return [_measure_cell(measure, cell) for cell in cells]


def _measure_cell(measure: Callable[[Cell], xarray.Dataset], cell: Cell) -> Outcome:
    started = time.perf_counter()
    try:
        return Outcome(measure(cell), time.perf_counter() - started)
    except Exception as error:  # told in the end; the other cells go on
        return Outcome(None, time.perf_counter() - started, f"{type(error).__name__}: {error}")


def _grouped(sweep: Sweep, cells: list[Cell]) -> list[Cell]:
    """The most expensive groups first, so that no worker is left alone with a long one in the end."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(json.dumps(sweep.group(cell)), []).append(cell)
    dearest = sorted(groups.values(), key=lambda group: -max(map(sweep.cost, group)))
    return [cell for group in dearest for cell in group]


def _tasks(sweep: Sweep, todo: list[tuple[Path, Cell]]) -> Iterator[list[tuple[Path, Cell]]]:
    """Successive cells of one group, together about as long as a worker should be busy."""
    task, cost = [], 0.0
    for path, cell in todo:
        ends = task and sweep.group(task[0][1]) != sweep.group(cell)
        if task and (ends or cost + sweep.cost(cell) > TASK_SECONDS):
            yield task
            task, cost = [], 0.0
        task.append((path, cell))
        cost += sweep.cost(cell)
    if task:
        yield task
