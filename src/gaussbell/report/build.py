"""From folders and files to a page: what is found below them, in the order in which people read."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gaussbell
from gaussbell import records
from gaussbell.records import cells as cell_files
from gaussbell.report import audit, evaluation, iteration, speed, sweeps
from gaussbell.report.html import to_html
from gaussbell.report.overview import describe_all
from gaussbell.report.parts import Facts, Item, Page, Section, Words
from gaussbell.report.studies import CHARTS

TITLE = "gaussbell report"


class Found(NamedTuple):
    """What lies below the paths that were given: folders of sweeps, and records by their files."""

    sweeps: list[Path]
    records: list[Path]


def find(paths: Sequence[Path]) -> Found:
    """Folders with cells, and JSON files, below some paths; ValueError for a path that is not there."""
    folders: list[Path] = []
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path}: there is no such file or folder; give what a run wrote with --out.")
        if path.is_file():
            files.append(path)
            continue
        cells = sorted({cell.parent.parent for cell in path.rglob(f"cells/*{cell_files.SUFFIX}")})
        folders += cells
        files += [
            file
            for file in sorted(path.rglob("*.json"))
            if "cells" not in file.relative_to(path).parts and not file.name.startswith(".")
        ]
    return Found(list(dict.fromkeys(folders)), list(dict.fromkeys(files)))


def build_page(paths: Sequence[Path], tell: Callable[[str], None] = lambda _: None) -> Page:
    """A report of everything below some paths.

    Files that cannot be read are named on it, and the rest is shown. Arguments: `tell`, hears what is read.
    """
    found = find(paths)
    anchors = _Anchors()
    swept: list[sweeps.SweepReport] = []
    trouble: list[str] = []
    for folder in found.sweeps:
        tell(f"{folder}: reading cells")
        try:
            data, lost = read_cells(folder)
            trouble += lost
            if data is not None:
                anchor = anchors.take(folder.name)
                swept.append(sweeps.describe(folder, data, anchor, known_total(folder)))
        except sweeps.MALFORMED as error:
            trouble.append(f"{folder}: its cells do not go together: {type(error).__name__}: {error}")
    told, kept = _read_records(found.records)
    trouble += told
    swept += _verdicts_alone(kept, found.sweeps, anchors, trouble)
    swept.sort(key=lambda report: _reading_order(report.name))
    sections = [*(report.section for report in swept), *_record_sections(kept, anchors)]
    if not sections and not trouble:
        where = ", ".join(map(str, paths))
        raise ValueError(
            f"{where}: no records there; run `gaussbell reproduce`, or `gaussbell evaluate --out` first."
        )
    overview = describe_all(sections, swept, trouble)
    about = f"Made from records by gaussbell {gaussbell.__version__}."
    return Page(TITLE, about, [overview, *sections], trouble)


def page_of_evaluation(
    record: Mapping[str, Any], diagnosis: Mapping[str, Any] | None, command: str | None = None
) -> Page:
    """The report of one evaluation; `command`, what made it, by default a command line."""
    name = str(record["settings"].get("problem") or record["settings"].get("data"))
    command = command or command_of(record)
    record, diagnosis = records.to_plain(record), records.to_plain(diagnosis)
    run = Section("run", "The run", evaluation.describe(record, diagnosis, command))
    return _with_origin(f"Policy evaluation: {name}", [run], record, command)


def page_of_iteration(record: Mapping[str, Any], diagnosis: Mapping[str, Any] | None) -> Page:
    """The report of policy iteration; `diagnosis`, of an evaluation of the policy that was found."""
    record, diagnosis, command = records.to_plain(record), records.to_plain(diagnosis), command_of(record)
    sections = [Section("run", "The run", iteration.describe(record, command))]
    if diagnosis is not None:
        items = evaluation.describe(None, diagnosis, command)
        sections.append(Section("value", "The value of the policy that was found", items))
    return _with_origin(f"Policy iteration: {record['settings']['problem']}", sections, record, command)


def page_of_audit(record: Mapping[str, Any]) -> Page:
    """The report of an audit of a critic."""
    record, command = records.to_plain(record), command_of(record)
    run = Section("run", "The audit", audit.describe(record, command))
    return _with_origin(f"Audit of a critic: {record['settings']['problem']}", [run], record, command)


def write_report(page: Page, path: Path) -> Path:
    """Write a page as one HTML file; whole or not at all."""
    return records.write_text(path, to_html(page))


def read_cells(folder: Path) -> tuple[Any, list[str]]:
    """The cells of a sweep as one data set, None if there is none, and what could not be read."""
    cells, lost = [], []
    for path in sorted((folder / "cells").glob(f"*{cell_files.SUFFIX}")):
        try:
            cells.append(cell_files.read_cell(path))
        except (ValueError, OSError) as error:
            lost.append(str(error))
    return (cell_files.join(cells) if cells else None), lost


def known_total(folder: Path) -> int | None:
    """How many cells a sweep has, if the one who runs it said so."""
    try:
        return int(records.read(folder / "sweep.json")["cells"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _with_origin(title: str, sections: list[Section], record: Mapping[str, Any], command: str) -> Page:
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    origin = Section("origin", "Where it comes from", [Facts({"made by": command, "versions": versions})])
    return Page(title, "", [*sections, origin])


def _read_records(paths: Sequence[Path]) -> tuple[list[str], dict[Path, dict[str, Any]]]:
    lost, kept = [], {}
    for path in paths:
        try:
            kept[path] = records.read(path)
        except (ValueError, OSError) as error:
            lost.append(str(error))
    return lost, kept


def _verdicts_alone(
    kept: Mapping[Path, dict[str, Any]], folders: Sequence[Path], anchors: "_Anchors", trouble: list[str]
) -> Iterator[sweeps.SweepReport]:
    """Studies of which only the verdicts are there; what is wrong with some goes to `trouble`."""
    for path, record in kept.items():
        if path.name != "verdicts.json":
            continue
        try:
            for name, study in record["studies"].items():
                folder = path.parent / name
                if folder not in folders:
                    yield sweeps.describe_verdicts(folder, name, record["scale"], study, anchors.take(name))
        except sweeps.MALFORMED as error:
            trouble.append(f"{path}: not a whole record: {type(error).__name__}: {error}")


def _record_sections(kept: Mapping[Path, dict[str, Any]], anchors: "_Anchors") -> list[Section]:
    sections = []
    for path, record in kept.items():
        made = _record_section(path, record, kept)
        if made is not None:
            title, items = made
            versions = record.get("versions", {})
            if isinstance(versions, Mapping):
                facts = {"file": str(path), "versions": ", ".join(f"{k} {v}" for k, v in versions.items())}
                items = [*items, Facts(facts, "Where it comes from")]
            sections.append(Section(anchors.take(f"{path.parent.name}-{path.stem}"), title, items))
    return sections


def _record_section(
    path: Path, record: Mapping[str, Any], kept: Mapping[Path, Mapping[str, Any]]
) -> tuple[str, list[Item]] | None:
    """The title and the items of a record; None if it is shown elsewhere, or is none of ours."""
    try:
        if path.name == "step_time.json":
            return "Speed", list(speed.chart_step_time(record, f"gaussbell bench --out {path.parent}"))
        return _run_section(path, record, kept)
    except sweeps.MALFORMED as error:
        return path.name, [Words(f"{path}: not a whole record: {type(error).__name__}: {error}", "bad")]


def _run_section(
    path: Path, record: Mapping[str, Any], kept: Mapping[Path, Mapping[str, Any]]
) -> tuple[str, list[Item]] | None:
    """The same for an evaluation, an iteration, or a diagnosis without either of them."""
    kind = record.get("command")
    if kind not in ("evaluate", "iterate", "diagnose", "audit"):
        return None
    if kind == "audit":
        return f"Audit of a critic: {record['settings']['problem']}", audit.describe(
            record, command_of(record)
        )
    command, diagnosis = command_of(record), kept.get(path.parent / "diagnosis.json")
    if kind == "evaluate":
        name = record["settings"].get("problem") or record["settings"].get("data")
        return f"Policy evaluation: {name}", evaluation.describe(record, diagnosis, command)
    if kind == "iterate":
        items = iteration.describe(record, command)
        items += [] if diagnosis is None else evaluation.describe(None, diagnosis, command)
        return f"Policy iteration: {record['settings']['problem']}", items
    if path.parent / "record.json" not in kept:
        return f"Diagnosis: {path.parent.name}", evaluation.describe(None, record, command)
    return None


def command_of(record: Mapping[str, Any]) -> str:
    """The command line that makes the record of an evaluation, an iteration or a diagnosis."""
    settings = dict(record.get("settings", {}))
    words = ["gaussbell", str(record.get("command"))]
    words += [str(settings.pop(name)) for name in ("file", "problem") if settings.get(name) is not None][:1]
    options = {
        name: value
        for name, value in settings.items()
        if value is not None and name not in ("sizes", "grid", "problem")
    }
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)


def _reading_order(name: str) -> int:
    known = list(CHARTS)
    return known.index(name) if name in known else len(known)


class _Anchors:
    """Names for links: letters, digits and dashes, each once."""

    def __init__(self) -> None:
        self._taken = {"main", "data", "theme", "overview"}

    def take(self, name: str) -> str:
        base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "section"
        anchor, number = base, 1
        while anchor in self._taken:
            number += 1
            anchor = f"{base}-{number}"
        self._taken.add(anchor)
        return anchor
