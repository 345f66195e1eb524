"""Sweeps: resuming, workers that die, executors of every kind, and files that were damaged."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray

import gaussbell as gb
from gaussbell import sweeps
from gaussbell.records import cells as cell_files
from gaussbell.sweeps import executors

HERE = Path(__file__).parent


def square(cell):
    """What the workers of these tests do."""
    if cell.get("wait"):
        time.sleep(cell["wait"])
    if cell.get("gate") and cell["number"] > 1:
        wait_until(Path(cell["gate"]).exists)
    if cell["number"] == cell.get("fails"):
        raise ArithmeticError("cannot")
    marker = Path(cell["once"]) if cell.get("once") else None
    if marker is not None and not marker.exists():
        marker.write_text("died")
        os.kill(os.getpid(), signal.SIGKILL)
    return xarray.Dataset({"square": cell["number"] ** 2, "path": ("step", np.arange(3.0) + np.pi)})


def sweep_of(count=4, **settings):
    cells = [{"number": k, **settings} for k in range(count)]
    return sweeps.Sweep(
        cells,
        square,
        name=lambda cell: f"cell{cell['number']}",
        group=lambda cell: cell["number"] % 2,
        cost=lambda cell: 20.0 + cell["number"],  # so each is a task of its own
        about={"experiment": "squares"},
    )


def threads():
    return ThreadPoolExecutor(2)


def squares(folder):
    data = gb.records.open(folder)
    return dict(zip(data.number.values.tolist(), data.square.values.tolist(), strict=True))


def test_a_sweep_is_files_and_one_labelled_data_set(tmp_path):
    told = []
    paths = sweeps.run_sweep(sweep_of(), tmp_path, threads, told.append)
    assert [path.name for path in paths] == [f"cell{k}.nc" for k in range(4)]
    data = gb.records.open(tmp_path)
    assert data.path.dims == ("cell", "step") and data.seconds.dims == ("cell",)
    assert squares(tmp_path) == {0: 0, 1: 1, 2: 4, 3: 9}
    assert told[0].done == 0 and told[-1].done == told[-1].total == 4
    assert told[-1].done_cost == told[-1].total_cost == 86
    kept = cell_files.read_cell(paths[1])
    assert json.loads(kept.attrs["cell"]) == {"number": 1}
    assert json.loads(kept.attrs["about"]) == {"experiment": "squares"}
    assert "jax" in json.loads(kept.attrs["versions"])


@pytest.mark.parametrize("damage", ["cut", "altered", "emptied", "other settings"])
def test_only_what_is_missing_or_damaged_is_run_again(tmp_path, damage):
    paths = sweeps.run_sweep(sweep_of(), tmp_path, threads)
    before = {path: path.stat().st_mtime_ns for path in paths}
    whole = paths[2].read_bytes()
    if damage == "cut":
        paths[2].write_bytes(whole[: len(whole) // 2])
    elif damage == "altered":
        at = whole.index(np.float64(1.0 + np.pi).tobytes())
        paths[2].write_bytes(whole[:at] + np.float64(5.0).tobytes() + whole[at + 8 :])
    elif damage == "emptied":
        paths[2].write_bytes(b"")
    else:
        other = {"number": 2, "extra": 1}
        cell_files.write_cell(paths[2], other, square(other), about={}, seconds=0.0)
    if damage != "other settings":
        with pytest.raises(ValueError, match="run the experiment again"):
            cell_files.read_cell(paths[2])
    (tmp_path / "cells" / ".cell2.nc.left").write_text("by a run that was killed")
    sweeps.run_sweep(sweep_of(), tmp_path, threads)
    assert squares(tmp_path) == {0: 0, 1: 1, 2: 4, 3: 9}
    again = [path for path in paths if path.stat().st_mtime_ns != before[path]]
    assert again == [paths[2]]
    assert len(list((tmp_path / "cells").iterdir())) == 4


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path):
    with pytest.raises(sweeps.SweepFailed, match="1 of 4 cells failed, cell2 with ArithmeticError: cannot"):
        sweeps.run_sweep(sweep_of(fails=2), tmp_path, threads)
    assert squares(tmp_path) == {0: 0, 1: 1, 3: 9}


def test_two_cells_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="same name"):
        sweeps.run_sweep(sweep_of()._replace(name=lambda cell: "one"), tmp_path, threads)


def test_settings_that_some_cells_lack(tmp_path):
    for number, cell in enumerate([{"number": 1, "who": "a"}, {"number": 2, "size": 0.5}]):
        cell_files.write_cell(tmp_path / f"{number}.nc", cell, square(cell), about={}, seconds=0.0)
    data = gb.records.open(tmp_path)
    assert data.who.values.tolist() == ["a", ""]
    assert np.isnan(data["size"].values[0]) and data["size"].values[1] == 0.5
    with pytest.raises(ValueError, match="no cells"):
        gb.records.open(tmp_path / "nowhere")


def test_a_full_disk_is_told_and_keeps_what_is_there(tmp_path, monkeypatch):
    sweeps.run_sweep(sweep_of(2), tmp_path, threads)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gb.records.files.os, "fdopen", full)
    with pytest.raises(
        sweeps.SweepFailed, match=r"No space left on device\). 2 of 4 cells are kept; make room"
    ):
        sweeps.run_sweep(sweep_of(4), tmp_path, threads)
    monkeypatch.undo()
    assert squares(tmp_path) == {0: 0, 1: 1}


def test_workers_that_die_are_replaced(tmp_path):
    once = str(tmp_path / "marker")
    with sweeps.Shared(lambda: sweeps.local_processes(1)) as open_executor:
        sweeps.run_sweep(sweep_of(once=once), tmp_path / "out", open_executor)
    assert (tmp_path / "marker").exists()
    assert squares(tmp_path / "out") == {0: 0, 1: 1, 2: 4, 3: 9}


def test_workers_that_always_die_end_the_sweep(tmp_path):
    class Dying(ThreadPoolExecutor):
        def submit(self, *_):
            raise BrokenExecutor("a worker died")

    with pytest.raises(sweeps.SweepFailed, match="died 3 times in a row"):
        sweeps.run_sweep(sweep_of(), tmp_path, Dying)


RUNNER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # those started in the background ignore it
sys.path.insert(0, {here!r})
import test_sweeps
from pathlib import Path
from gaussbell import sweeps
if __name__ == "__main__":
    print("ready", flush=True)
    sweep = test_sweeps.sweep_of(4, gate={gate!r})
    sweeps.run_sweep(sweep, Path({out!r}), lambda: sweeps.local_processes(2))
"""


def children_of(pid):
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_runner_that_is_ended_takes_its_workers_along_and_goes_on_later(tmp_path, end):
    script, out, gate = tmp_path / "runner.py", tmp_path / "out", tmp_path / "gate"
    script.write_text(RUNNER.format(here=str(HERE), out=str(out), gate=str(gate)))
    with subprocess.Popen([sys.executable, str(script)], stderr=subprocess.DEVNULL) as runner:
        try:
            wait_until(lambda: list(out.glob("cells/*.nc")))
            workers = children_of(runner.pid)
            assert len(workers) >= 2
            runner.send_signal(end)
            runner.wait(60)
        finally:
            runner.kill()
    wait_until(lambda: not any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers), 30)
    assert 1 <= len(list(out.glob("cells/*.nc"))) <= 2  # the others wait before a shut gate
    gate.touch()
    sweeps.run_sweep(sweep_of(4, gate=str(gate)), out, threads)
    assert squares(out) == {k: k**2 for k in range(4)}


@contextlib.contextmanager
def dask(*words):
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(HERE)},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_dask_cluster_gives_the_same_also_if_a_worker_is_killed(tmp_path):
    port = 20000 + os.getpid() % 10000
    address = f"tcp://127.0.0.1:{port}"
    worker = ("worker", address, "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path))
    with (
        dask("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"),
        dask(*worker) as killed,
        dask(*worker),
    ):
        told = []

        def tell(now):
            told.append(now)
            if now.done == 2:
                os.killpg(killed.pid, signal.SIGKILL)

        sweep = sweep_of(8, wait=0.3)
        sweeps.run_sweep(sweep, tmp_path / "dask", lambda: sweeps.dask_cluster(address, timeout=60), tell)
    sweeps.run_sweep(sweep, tmp_path / "here", threads)
    for path in (tmp_path / "here/cells").iterdir():
        here, there = (cell_files.read_cell(file) for file in (path, tmp_path / "dask/cells" / path.name))
        assert here.identical(there) or here.attrs["digest"] == there.attrs["digest"]
    assert len(told) == 9


def test_a_scheduler_that_does_not_answer():
    with (
        pytest.raises(ValueError, match=r"no Dask scheduler answers there within 0.5 s"),
        sweeps.dask_cluster("tcp://127.0.0.1:9", timeout=0.5),
    ):
        pass


def show_environment(_):
    time.sleep(0.5)
    return os.getpid(), {name: os.environ.get(name) for name in executors.SINGLE_THREAD}


def test_every_local_worker_has_one_thread():
    before = dict(os.environ)
    with sweeps.local_processes(2) as executor:
        told = dict(executor.map(show_environment, range(6)))
    assert list(told.values()) == [executors.SINGLE_THREAD] * 2
    assert dict(os.environ) == before
