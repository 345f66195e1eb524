"""What all commands share: consoles, progress, and folders to write to."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import gaussbell as gb
from gaussbell import records

RECORD, DIAGNOSIS = "record.json", "diagnosis.json"
"""Files that a run writes, and that a report puts together."""

screen = Console(emoji=False)  # what a user typed is printed as it is
notes = Console(stderr=True, emoji=False)


@contextlib.contextmanager
def showing_steps(title: str, max_steps: int) -> Iterator[Callable[[gb.Progress], None]]:
    """A bar of solver steps on the error stream, for terminals only."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("NMSBE {task.fields[msbe]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as progress:
        task = progress.add_task(title, total=max_steps, msbe="...")

        def show(now: gb.Progress) -> None:
            progress.update(task, completed=now.steps, msbe=f"{now.best_loss:.2e}")

        yield show


def print_facts(rows: dict[str, str]) -> None:
    """Names and what is to be said of them."""
    facts = Table(show_header=False, box=None)
    for name, text in rows.items():
        facts.add_row(name, text)
    screen.print(facts)


def coloured(status: gb.Status) -> str:
    """A status in green or red, with its sentence."""
    return f"[{'green' if status.succeeded else 'red'}]{status}[/]: {status.value}"


def print_json(record: dict[str, Any]) -> None:
    print(json.dumps(records.to_plain(record), indent=1, allow_nan=False))


def write_record(
    out: Path,
    record: dict[str, Any],
    drawings: dict[str, Callable[[Any, dict], Any]],
    name: str = RECORD,
) -> None:
    """The record, and the figures that each `draw(figures, record)` makes of it, if matplotlib is there."""
    if name == RECORD:
        (out / DIAGNOSIS).unlink(missing_ok=True)  # of what the folder held before
    path = records.write(out / name, record)
    written = [str(path)]
    try:
        from gaussbell import figures  # noqa: PLC0415 - needs matplotlib
    except ImportError as error:
        notes.print(f"No figure: {escape(str(error))}", highlight=False)
    else:
        kept = records.read(path)
        for file, draw in drawings.items():
            written.append(str(figures.save(draw(figures, kept), out / file)))
    told = " and ".join(filter(None, [", ".join(written[:-1]), written[-1]]))
    notes.print(f"Wrote {escape(told)}.", highlight=False, soft_wrap=True)


def check_writable(out: Path | None, option: str | None = None) -> None:
    """Raise before the work, not after it, if the output folder cannot be written to.

    `option`, what the user typed for it, where that is not `--out` and the folder.
    """
    if out is None:
        return
    option = option or f"--out {out}"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{option}: cannot be made a folder ({error.strerror}).") from error
    if not os.access(out, os.W_OK):
        raise ValueError(f"{option}: the folder cannot be written to; choose another.")
