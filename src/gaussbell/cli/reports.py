"""gaussbell report, and --report of evaluate and iterate: pages from records."""

import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaussbell import records
from gaussbell.cli.screen import DIAGNOSIS, check_writable, escape, notes
from gaussbell.records.diagnosis import diagnose
from gaussbell.records.evaluations import Evaluation

DEFAULT_RUNS = Path("runs")


def check_report(path: Path | None, option: str = "--report") -> None:
    """Raise before the work, not after it, if no report can be written there."""
    if path is None:
        return
    from gaussbell.report.html import plotly_script  # noqa: PLC0415 - needs plotly and xarray

    if path.is_dir():
        raise ValueError(f"{option} {path}: this is a folder; give the name of an .html file.")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{option} {path}: a report is one HTML file; choose a name that ends in .html.")
    check_writable(path.parent, f"{option} {path}")
    plotly_script()


def report_runs(runs: list[Path], out: Path, *, show: bool) -> None:
    """Write a report of everything below some folders."""
    from gaussbell.report import build_page, write_report  # noqa: PLC0415 - needs plotly and xarray

    if not runs and not DEFAULT_RUNS.exists():
        raise ValueError(f"there is no folder {DEFAULT_RUNS} here; name the folders that runs wrote to.")
    with notes.status("reading records") as status:

        def tell(text: str) -> None:
            status.update(escape(text))

        page = build_page(runs or [DEFAULT_RUNS], tell)
        write_report(page, out)
    for line in page.trouble:
        notes.print(f"[red]not read:[/] {escape(line)}", highlight=False, soft_wrap=True)
    _tell(out)
    if show:
        webbrowser.open(out.resolve().as_uri())


def report_evaluation(
    path: Path, record: Mapping[str, Any], kept: Evaluation, *, out: Path | None, key: int
) -> None:
    """Diagnose a fit, and write the report of it; the diagnosis goes to `out` too."""
    from gaussbell.report import page_of_evaluation, write_report  # noqa: PLC0415 - needs plotly and xarray

    with notes.status("diagnosing") as status:
        diagnosis = diagnose(kept, key=key, landscape=False, tell=status.update)
        write_report(page_of_evaluation(record, diagnosis), path)
    if out is not None:
        records.write(out / DIAGNOSIS, diagnosis)
    _tell(path)


def report_audit(path: Path, record: Mapping[str, Any]) -> None:
    """Write the report of an audit."""
    from gaussbell.report import page_of_audit, write_report  # noqa: PLC0415 - needs plotly and xarray

    write_report(page_of_audit(record), path)
    _tell(path)


def report_iteration(
    path: Path, record: Mapping[str, Any], diagnosis: dict[str, Any] | None, *, out: Path | None
) -> None:
    """Write the report of policy iteration; the diagnosis of its policy goes to `out` too."""
    from gaussbell.report import page_of_iteration, write_report  # noqa: PLC0415 - needs plotly and xarray

    write_report(page_of_iteration(record, diagnosis), path)
    if out is not None and diagnosis is not None:
        records.write(out / DIAGNOSIS, diagnosis)
    _tell(path)


def watch_folder(folder: Path, *, host: str, port: int, show: bool) -> None:
    """Serve the page of a folder until Ctrl-C."""
    from gaussbell.report.watch import make_server  # noqa: PLC0415 - needs plotly and xarray

    if folder.is_file():
        raise ValueError(f"{folder}: this is a file; give the folder that a sweep writes to.")
    server = make_server(folder, host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{server.server_address[1]}/"
    notes.print(
        f"Watching {escape(str(folder))} at {address}; Ctrl-C ends it.", highlight=False, soft_wrap=True
    )
    if show:
        webbrowser.open(address)
    with server:
        server.serve_forever()


def _tell(path: Path) -> None:
    size = path.stat().st_size / 1e6
    notes.print(
        f"Report: {escape(str(path))} ({size:.1f} MB), one file for any browser.",
        highlight=False,
        soft_wrap=True,
    )
