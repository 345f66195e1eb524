"""gaussbell reproduce, list and check: experiments, resumable, and verdicts on their claims."""

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gaussbell import records
from gaussbell.cli.screen import escape, notes, screen
from gaussbell.experiments.scale import Scale

SECONDS_BETWEEN_LINES = 15
"""How often progress is told where the output is no terminal."""


def choose_studies(name: str) -> list[str]:
    """The studies that a name stands for."""
    from gaussbell.experiments import reproduction  # noqa: PLC0415 - needs xarray

    if name in reproduction.GROUPS:
        return list(reproduction.GROUPS[name].studies)
    if name not in reproduction.STUDIES:
        known = ", ".join([*reproduction.GROUPS, *reproduction.STUDIES])
        raise ValueError(f"experiment={name!r}: there is none of this name; choose {known}.")
    return [name]


def reproduce_studies(
    names: list[str], scale: Scale, out: Path, *, workers: int | None, scheduler: str | None
) -> None:
    """Run studies, draw their figures, and print the verdicts."""
    from gaussbell import sweeps  # noqa: PLC0415 - needs xarray

    open_executor = functools.partial(sweeps.local_processes, workers)
    if scheduler is not None:
        open_executor = functools.partial(sweeps.dask_cluster, scheduler)
    with sweeps.Shared(open_executor) as shared:
        for name in names:
            run_study(name, scale, out, shared)
    check_studies(names, scale, out)


def run_study(name: str, scale: Scale, out: Path, open_executor: Any) -> None:
    """Run a study's cells, and draw it."""
    from gaussbell import sweeps  # noqa: PLC0415 - needs xarray
    from gaussbell.experiments import reproduction  # noqa: PLC0415

    sweep = reproduction.STUDIES[name].sweep(scale)
    folder = reproduction.folder_of(out, scale, name)
    try:
        with showing_cells(name) as show:
            paths = sweeps.run_sweep(sweep, folder, open_executor, show)
    except KeyboardInterrupt:
        notes.print(
            f"{name}: interrupted; finished cells are kept in {escape(str(folder))}. The same command goes "
            "on."
        )
        raise
    draw_study(name, scale, out, paths)


def draw_study(name: str, scale: Scale, out: Path, paths: list[Path]) -> None:
    """Write a study's figures from its cells, as PNG and PDF."""
    from gaussbell import figures  # noqa: PLC0415 - needs matplotlib
    from gaussbell.experiments import reproduction  # noqa: PLC0415
    from gaussbell.records import cells as cell_files  # noqa: PLC0415

    folder = reproduction.folder_of(out, scale, name)
    for left in folder.glob(".*.p[nd][gf].*"):  # by a run that was killed while it drew
        left.unlink(missing_ok=True)
    for title, figure in reproduction.STUDIES[name].draw(cell_files.gather(paths)).items():
        for suffix in ("png", "pdf"):
            figures.save(figure, folder / f"{title}.{suffix}")


def check_studies(
    names: list[str], scale: Scale, out: Path, *, page: Path | None = None, accept: bool = False
) -> bool:
    """Print the verdicts, write them to `verdicts.json`; are they all as expected?"""
    from gaussbell import sweeps  # noqa: PLC0415 - needs xarray
    from gaussbell.experiments import reproduction  # noqa: PLC0415
    from gaussbell.records import cells as cell_files  # noqa: PLC0415

    found: dict[str, Any] = {}
    for name in names:
        study, folder = reproduction.STUDIES[name], reproduction.folder_of(out, scale, name)
        sweep = study.sweep(scale)
        paths = [sweeps.cell_path(sweep, folder, cell) for cell in sweep.cells]
        missing = sum(not path.exists() for path in paths)
        if missing:
            raise ValueError(
                f"{name}: {missing} of {len(paths)} cells are missing in {folder}; run `gaussbell reproduce "
                f"{name} --scale {scale} --out {out}` first."
            )
        figures = sorted(path.stem for path in folder.glob("*.png"))
        found[name] = reproduction.summarise(study, scale, cell_files.gather(paths)) | {"figures": figures}
    _print_verdicts(found)
    verdicts = reproduction.verdicts(found)
    if accept:
        reproduction.expect(scale, verdicts)
    changed = reproduction.changes(scale, verdicts)
    for claim, (expected, verdict) in changed.items():
        notes.print(f"[bold red]changed:[/] {claim}: expected {expected}, found {verdict}.", highlight=False)
    record = _merged(out / scale / "verdicts.json", scale, found)
    if page is not None:
        folder = Path(os.path.relpath(out / scale, page.parent)).as_posix()
        group = reproduction.group_of(names[0])
        told = {name: study for name, study in record["studies"].items() if name in group.studies}
        records.write_text(page, reproduction.page(record | {"studies": told}, folder))
        notes.print(f"Wrote {escape(str(page))}.", highlight=False)
    return not changed


def _merged(path: Path, scale: Scale, found: dict[str, Any]) -> dict[str, Any]:
    """The record of verdicts with these studies renewed, as written."""
    from gaussbell.experiments import reproduction  # noqa: PLC0415 - needs xarray

    known = (records.read(path)["studies"] if path.exists() else {}) | found
    studies = {name: known[name] for name in reproduction.STUDIES if name in known}
    record = {"scale": str(scale), "versions": records.versions(), "studies": studies}
    return records.read(records.write(path, record))


def list_studies() -> None:
    """Every experiment with its cells at each scale."""
    from gaussbell.experiments import reproduction  # noqa: PLC0415 - needs xarray

    for name, group in reproduction.GROUPS.items():
        table = Table(title=f"{name}: {group.title}", title_justify="left")
        for column in ("name", "what", f"cells: {', '.join(Scale)}"):
            table.add_column(column, no_wrap=column == "name")
        for study in group.studies.values():
            counts = ", ".join(str(len(study.cells(scale))) for scale in Scale)
            table.add_row(study.name, f"{study.title}; {len(study.claims)} claims", counts)
        screen.print(table)


@contextlib.contextmanager
def showing_cells(name: str) -> Iterator[Callable[[Any], None]]:
    """A bar of cells with the time left, or a line now and then where the output is no terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        TimeElapsedColumn(),
    )
    started, first, last_line = time.monotonic(), [None], [0.0]
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as progress:
        task = progress.add_task(name, total=None, left="")

        def show(now: Any) -> None:
            elapsed = time.monotonic() - started
            first[0] = now.done_cost if first[0] is None else first[0]
            left = _time_left(elapsed, now.done_cost - first[0], now.total_cost - now.done_cost)
            progress.update(task, completed=now.done, total=now.total, left=left)
            finished = now.done == now.total
            if not notes.is_terminal and (finished or elapsed - last_line[0] >= SECONDS_BETWEEN_LINES):
                last_line[0] = elapsed
                notes.print(f"{name}: {now.done} of {now.total} cells, {elapsed:.0f} s{left and ', ' + left}")

        yield show


def _time_left(elapsed: float, done: float, left: float) -> str:
    """How long the cells that are left will take, by those done in this run; both in seconds of one core.

    Example:
        >>> _time_left(600, 1_000, 200_000), _time_left(600, 1_000, 10_000), _time_left(20, 30, 60)
        ('about 33 h left', 'about 100 min left', 'about 40 s left')
        >>> _time_left(5, 2, 1000)  # too little to tell from
        ''
    """
    if left <= 0 or done < min(0.05 * (done + left), 60):
        return ""
    seconds = elapsed * left / done
    if seconds >= 2 * 3600:
        return f"about {seconds / 3600:.0f} h left"
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


def _print_verdicts(studies: dict[str, Any]) -> None:
    colours = {"holds": "green", "holds in part": "yellow", "does not hold": "red"}
    for name, study in studies.items():
        table = Table(title=f"{name}: {study['title']}", title_justify="left", show_lines=True)
        for column in ("claim", "where", "measured", "verdict"):
            table.add_column(column, no_wrap=column == "verdict")
        for claim in study["claims"]:
            verdict = claim["verdict"]
            table.add_row(
                escape(claim["says"]),
                claim["where"],
                escape(claim["measured"]),
                f"[{colours[verdict]}]{verdict}[/]",
            )
        screen.print(table)
