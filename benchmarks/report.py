"""A report of 2,000 cells: seconds and megabytes; and how soon a new cell is on the live page.

The cells are as large as real ones, with made-up numbers. The report's time stands beside that of reading the
same files by xarray's own reader.

python benchmarks/report.py --out runs/bench
"""

import argparse
import http.client
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import xarray

from gaussbell import records
from gaussbell.experiments.fits import SURFACE
from gaussbell.experiments.scale import Scale
from gaussbell.records import cells as cell_files
from gaussbell.report import build_page, write_report
from gaussbell.report.watch import make_server

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from made_up_cells import fill

CELLS = {"convergence": 425, "generalisation": 601, "architectures": 974}
"""Of each study at the paper's scale; the last in part."""
TIMED = 100
"""Files that are read by xarray's reader."""
NEW = 20


def fill_folder(folder):
    return [
        path for name, most in CELLS.items() for path in fill(folder, name, Scale.PAPER, most, (SURFACE,) * 2)
    ]


def time_report(folder, out):
    started = time.perf_counter()
    page = build_page([folder])
    built = time.perf_counter()
    path = write_report(page, out)
    return {
        "cells": sum(CELLS.values()),
        "charts": sum(item.type == "chart" for section in page.sections for item in section.items),
        "seconds": time.perf_counter() - started,
        "seconds_to_write": time.perf_counter() - built,
        "megabytes": path.stat().st_size / 1e6,
    }


def time_reading(paths):
    """Milliseconds to read a cell, ours and by xarray's own reader."""
    started = time.perf_counter()
    for path in paths:
        cell_files.read_cell(path)
    ours = time.perf_counter() - started
    started = time.perf_counter()
    for path in paths:
        xarray.load_dataset(path, engine=cell_files.ENGINE)
    return {"ours": 1e3 * ours / len(paths), "xarray": 1e3 * (time.perf_counter() - started) / len(paths)}


def time_live(folder, paths):
    """Seconds from a file's appearance to the event that names it, with the rest of the cells there."""
    kept = [(path, path.read_bytes()) for path in paths]
    for path in paths:
        path.unlink()
    waits = []
    with make_server(folder, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=120)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        whole = (
            f'"done": {sum(CELLS.values()) - len(paths) - CELLS["convergence"] - CELLS["generalisation"]},'
        )
        _wait_for(answer, whole)
        for path, content in kept:
            records.write_atomically(path, lambda file, content=content: file.write(content))
            appeared = time.perf_counter()
            _wait_for(answer, f'"{path.stem}"')
            waits.append(time.perf_counter() - appeared)
        server.shutdown()
    return {"median": float(np.median(waits)), "longest": max(waits), "cells": len(waits)}


def _wait_for(answer, text):
    for line in iter(answer.readline, b""):
        if text in line.decode():
            return
    raise RuntimeError("the stream ended")


def summary(record):
    """The figures as a Markdown table."""
    report, reading, live = record["report"], record["reading"], record["live"]
    return (
        "| what | measured |\n|---|---|\n"
        f"| report of {report['cells']:,} cells, {report['charts']} charts | {report['seconds']:.1f} s, "
        f"{report['megabytes']:.1f} MB |\n"
        f"| reading a cell, ours / by xarray alone | {reading['ours']:.1f} / {reading['xarray']:.1f} ms |\n"
        f"| a new cell on the live page, beside {report['cells']:,} others | {live['median']:.2f} s, at most "
        f"{live['longest']:.2f} s of {live['cells']} |\n"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        paths = fill_folder(Path(folder))
        record = {
            "versions": records.versions(),
            "report": time_report(Path(folder), Path(folder) / "report.html"),
            "reading": time_reading(paths[:TIMED]),
            "live": time_live(Path(folder), paths[-NEW:]),
        }
    records.write(out / "report.json", record)
    print(summary(record))


if __name__ == "__main__":
    main()
