"""A page that fills in while a sweep runs: a small server that reads the folder and changes nothing."""

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gaussbell.records import cells as cell_files
from gaussbell.report import sweeps
from gaussbell.report.build import known_total
from gaussbell.report.html import to_html, to_json
from gaussbell.report.parts import Bar, Item, Page, Section, Table, Words

SECONDS_BETWEEN_LOOKS = 0.4
MOST_AT_ONCE = 40
"""Cells that are read between two pages, so that a large folder fills in too."""
BUSY_SHARE = 0.25
"""Of the time, at most, charts are made anew."""
NEWEST = 8
"""Cells that are listed."""
HEARTBEAT_SECONDS = 5.0
OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Watcher:
    """The cells below a folder as they come, and a page of them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._cells: dict[Path, tuple[int, Any]] = {}
        self._sections: dict[Path, tuple[tuple[int, ...], Section]] = {}
        self._numbers = itertools.count()

    def look(self) -> bool:
        """Read cells that are new, at most so many; is anything new?"""
        pattern = f"cells/*{cell_files.SUFFIX}"
        try:
            there = {path: path.stat().st_mtime_ns for path in self.folder.rglob(pattern)}
        except OSError:  # something was removed meanwhile: the next look sees what is left
            return False
        gone = self._cells.keys() - there.keys()
        for path in gone:
            del self._cells[path]
        fresh = [path for path, when in there.items() if self._cells.get(path, (0,))[0] != when]
        for path in sorted(fresh, key=there.__getitem__)[:MOST_AT_ONCE]:
            try:
                self._cells[path] = (there[path], cell_files.read_cell(path))
            except (ValueError, OSError) as error:
                self._cells[path] = (there[path], str(error))
        return bool(fresh or gone)

    def page(self) -> Page:
        """What is known now; charts may be some cells behind."""
        cells = dict(self._cells)
        overview: list[Item] = [Words(cell, "bad") for _, cell in cells.values() if isinstance(cell, str)]
        for folder, good in _by_folder(cells).items():
            overview.append(Bar(f"{folder}:", len(good), _total(folder, good[0][1])))
        if not overview:
            overview = [Words(f"No cell below {self.folder} yet; they appear here as they finish.")]
        else:
            overview.append(_newest(cells))
        about = f"Following {self.folder}; cells appear as they finish."
        sections = [Section("overview", "Cells", overview)]
        sections += [section for _, (_, section) in sorted(dict(self._sections).items())]
        return Page("gaussbell watch", about, sections, live=True)

    def draw(self) -> bool:
        """Make the charts anew of sweeps whose cells have changed; is any new, or gone?"""
        found = _by_folder(dict(self._cells))
        gone = self._sections.keys() - found.keys()
        for folder in gone:
            del self._sections[folder]
        drawn = bool(gone)
        for folder, good in found.items():
            when = tuple(time for time, _ in good)
            known = self._sections.get(folder)
            if known is None or known[0] != when:
                anchor = f"sweep-{next(self._numbers)}" if known is None else known[1].anchor
                self._sections[folder] = (when, _section(folder, [cell for _, cell in good], anchor))
                drawn = True
        return drawn


class Live:
    """The newest page, for everyone who waits for it."""

    def __init__(self, watcher: Watcher):
        self.watcher = watcher
        self._news = threading.Condition()
        self._number, self._text, self._page = 0, "", watcher.page()
        self._publish()

    def start(self) -> None:
        """Follow the folder, and draw, each in a thread, so that no cell waits for a chart."""
        for work in (self._follow, self._draw):
            threading.Thread(target=work, daemon=True).start()

    @property
    def html(self) -> str:
        """The page as it is now."""
        return to_html(self._page)

    def _follow(self) -> None:
        while True:
            while self.watcher.look():
                self._publish()
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _draw(self) -> None:
        while True:
            started = time.monotonic()
            if self.watcher.draw():
                self._publish()
            time.sleep(SECONDS_BETWEEN_LOOKS + (time.monotonic() - started) / BUSY_SHARE)

    def wait(self, known: int, seconds: float) -> tuple[int, str]:
        """The number and the data of a page newer than the known one, or of the same after some seconds."""
        with self._news:
            self._news.wait_for(lambda: self._number != known, timeout=seconds)
            return self._number, self._text

    def _publish(self) -> None:
        with self._news:
            page = self.watcher.page()
            self._page, self._text, self._number = page, to_json(page), self._number + 1
            self._news.notify_all()


def make_server(folder: Path, host: str, port: int) -> ThreadingHTTPServer:
    """A server of the page of a folder; `serve_forever` runs it."""
    live = Live(Watcher(folder))
    names = {host, *OWN_NAMES} if host in OWN_NAMES else None

    class Handler(_Handler):
        def __init__(self, *args: Any):
            super().__init__(live, names, *args)

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise ValueError(
            f"--host {host} --port {port}: cannot be served at ({error.strerror}); choose another, or --port "
            "0 for any that is free."
        ) from error
    server.daemon_threads = True
    live.start()
    return server


class _Handler(BaseHTTPRequestHandler):
    """Answers with the page, and with news of it; nothing else can be asked for."""

    def __init__(self, live: Live, names: set[str] | None, *args: Any):
        self.live, self.names = live, names
        super().__init__(*args)

    def do_GET(self) -> None:
        if self.names is not None and self._asked_for() not in self.names:
            # A page from elsewhere whose name was made to point here.
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This server answers to its own address only.")
            return
        answers: dict[str, Callable[[], None]] = {"/": self._send_page, "/events": self._send_news}
        answers.get(self.path.partition("?")[0], self._refuse)()

    def _asked_for(self) -> str:
        name, colon, port = self.headers.get("Host", "").rpartition(":")
        return name if colon and port.isdigit() else self.headers.get("Host", "")

    def _refuse(self) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def _send_page(self) -> None:
        content = self.live.html.encode("utf-8")
        self._start("text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        with contextlib.suppress(OSError):  # the reader has gone
            self.end_headers()
            self.wfile.write(content)

    def _send_news(self) -> None:
        """Server-sent events: every page as one message."""
        self._start("text/event-stream")
        self.end_headers()
        known = 0
        try:
            while True:
                number, text = self.live.wait(known, HEARTBEAT_SECONDS)
                message = ": still here\n\n" if number == known else f"data: {text}\n\n"
                self.wfile.write(message.encode("utf-8"))
                self.wfile.flush()
                known = number
        except OSError:  # the reader has gone
            return

    def _start(self, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal belongs to the one who watches."""


def _by_folder(cells: dict[Path, tuple[int, Any]]) -> dict[Path, list[tuple[int, Any]]]:
    """The whole cells of each sweep, with their times."""
    found: dict[Path, list[tuple[int, Any]]] = {}
    for path, (when, cell) in sorted(cells.items(), key=lambda item: item[0]):
        if not isinstance(cell, str):
            found.setdefault(path.parent.parent, []).append((when, cell))
    return found


def _section(folder: Path, cells: list[Any], anchor: str) -> Section:
    """The charts of a sweep, or why there are none."""
    try:
        return sweeps.describe(folder, cell_files.join(cells), anchor, known_total(folder)).section
    except (*sweeps.MALFORMED, OSError) as error:
        said = Words(f"{folder}: its cells do not go together: {type(error).__name__}: {error}", "bad")
        return Section(anchor, folder.name, [said])


def _newest(cells: dict[Path, tuple[int, Any]]) -> Table:
    last = sorted(cells.items(), key=lambda item: -item[1][0])[:NEWEST]
    rows = [
        [
            time.strftime("%H:%M:%S", time.localtime(when / 1e9)),
            path.stem,
            "damaged" if isinstance(cell, str) else f"{float(cell.attrs['seconds']):.1f}",
            "" if isinstance(cell, str) else _settings(cell),
        ]
        for path, (when, cell) in last
    ]
    return Table("Newest cells", ("time", "cell", "seconds", "settings"), rows)


def _settings(cell: Any) -> str:
    settings = cell_files.settings_of(cell)
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _total(folder: Path, cell: Any) -> int | None:
    about = json.loads(cell.attrs["about"])
    return sweeps.planned_cells(about) or known_total(folder)
