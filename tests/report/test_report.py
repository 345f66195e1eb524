"""Reports as data and as HTML: what is on the page, that nothing can run on it, and the live page."""

import base64
import hashlib
import http.client
import json
import os
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

import gaussbell as gb
from gaussbell.cli import app
from gaussbell.cli.iterate import play_episode
from gaussbell.cli.screen import write_record
from gaussbell.experiments import reproduction
from gaussbell.networks.value_function import values_at
from gaussbell.records import cells as cell_files
from gaussbell.records.diagnosis import diagnose
from gaussbell.records.evaluations import Evaluation
from gaussbell.report import build_page, page_of_evaluation, page_of_iteration, sweeps, write_report
from gaussbell.report.html import to_html
from gaussbell.report.parts import Bar, Chart, Page, Picture, Scene, Section, Table, Words, to_plain
from gaussbell.report.watch import MOST_AT_ONCE, Watcher, make_server
from made_up_cells import fill

ROOT = Path(__file__).parents[2]
EVIL = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>'


def items_of(page, kind):
    return [item for section in page.sections for item in section.items if isinstance(item, kind)]


def decoded(column):
    (code,) = column.keys() - {"shape"}
    return np.frombuffer(base64.b64decode(column[code]), f"<{code}").reshape(column["shape"])


def write_sweep(folder, names=("a", "b"), setting="name"):
    """A sweep of someone's own, with any names."""
    for k, name in enumerate(names):
        measured = xarray.Dataset({"score": float(k), "path": ("step", np.arange(3.0))})
        path = folder / "cells" / f"cell{k}.nc"
        cell = {setting: name, "number": k}
        cell_files.write_cell(path, cell, measured, about={"experiment": names[0]}, seconds=0.5)
    return folder


def test_numbers_of_a_page_are_the_ones_given():
    column = np.array([np.pi, np.nan, np.inf, -0.0])
    assert decoded(to_plain(column)).tobytes() == column.tobytes()
    table = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(decoded(to_plain(table)), table)
    assert to_plain([1.5, np.float64(2), None, "x", float("nan")]) == [1.5, 2.0, None, "x", None]
    assert to_plain(np.array(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize("name", list(reproduction.STUDIES))
def test_every_study_has_charts_and_verdicts(tmp_path, name):
    fill(tmp_path, name)
    page = build_page([tmp_path])
    assert not page.trouble
    study = reproduction.STUDIES[name]
    claims = next(item for item in items_of(page, Table) if item.title == "Claims")
    assert [row[0] for row in claims.rows] == [claim.says for claim in study.claims]
    verdicts, *charts = items_of(page, Chart)
    assert sum(series.columns["y"].sum() for series in verdicts.series) == len(study.claims)
    assert len(charts) >= 2 and not [words for words in items_of(page, Words) if words.tone == "bad"]
    for chart in charts:
        assert chart.series and chart.alt and chart.caption
        assert chart.command == f"gaussbell reproduce {name} --scale smoke --out {tmp_path}"
        facets = {facet for series in chart.series for facet in series.facets}
        assert {control.facet for control in chart.controls} <= facets
        assert all(np.asarray(part).size for series in chart.series for part in series.columns.values())


def test_what_is_drawn_is_what_was_recorded(tmp_path):
    fill(tmp_path, "convergence")
    data = gb.records.open(tmp_path)
    curves = items_of(build_page([tmp_path]), Chart)[1]
    single = [series for series in curves.series if series.facets["shown"] == "single runs"]
    assert len(single) == data.sizes["cell"]
    recorded = {tuple(row[np.isfinite(row)]) for row in data.msbe.values}
    assert {tuple(series.columns["y"]) for series in single} == recorded
    fill(tmp_path, "generalisation")
    found = gb.records.open(tmp_path / "smoke/generalisation")
    surfaces = next(chart for chart in items_of(build_page([tmp_path]), Chart) if chart.solid)
    shown = surfaces.series[-1]
    runs = found.isel(cell=np.flatnonzero((found.method == "ours") & (found.samples == 2000)))
    best = runs.isel(cell=int(np.argmin(runs.test.values)))
    assert np.array_equal(shown.columns["z"], best.surface.values.T.astype(np.float32))


def test_without_cells_the_verdicts_and_figures_are_shown():
    page = build_page([ROOT / "docs/reproduction/quick/verdicts.json"])
    record = gb.records.read(ROOT / "docs/reproduction/quick/verdicts.json")
    overview = next(item for item in items_of(page, Table) if item.title == "Verdicts")
    assert [row[-1].text for row in overview.rows] == list(reproduction.verdicts(record["studies"]).values())
    pictures = items_of(page, Picture)
    assert len(pictures) == sum(len(study["figures"]) for study in record["studies"].values())
    assert base64.b64decode(pictures[0].png).startswith(b"\x89PNG")


def test_a_part_of_a_study_is_shown_without_verdicts(tmp_path):
    for path in fill(tmp_path, "convergence")[3:]:
        path.unlink()
    page = build_page([tmp_path])
    assert "Verdicts come when all cells are there." in [words.text for words in items_of(page, Words)]
    assert not [table for table in items_of(page, Table) if table.title == "Claims"]


def test_damaged_files_are_named_and_the_rest_is_shown(tmp_path):
    first, *_ = fill(tmp_path, "star")
    first.write_bytes(first.read_bytes()[:-40])
    (tmp_path / "record.json").write_text("{")
    (tmp_path / "other.json").write_text('{"command": "evaluate", "settings": {}}')
    (tmp_path / "verdicts.json").write_text('{"studies": {"star": {}}}')
    page = build_page([tmp_path])
    assert len(page.trouble) == 3 and str(first) in page.trouble[0] and "record.json" in page.trouble[1]
    assert any("not a whole record" in words.text for words in items_of(page, Words))
    assert items_of(page, Chart)


@pytest.mark.parametrize(
    "odd",
    [{"result": None}, {"history": [1], "result": {"status": "NEW"}}, {"settings": []}, {"settings": 3}],
)
def test_odd_records_are_named_and_files_of_others_left_out(tmp_path, odd):
    write_sweep(tmp_path / "cells/deep/sweep")
    gb.records.write(tmp_path / "record.json", {"command": "evaluate", "settings": {}, "result": {}} | odd)
    gb.records.write(tmp_path / "package.json", {"command": "build"} | odd)
    (tmp_path / "latin.json").write_bytes(b'{"name": "caf\xe9"}')
    page = build_page([tmp_path])
    assert [str(tmp_path / "latin.json") in line for line in page.trouble] == [True]
    bad = [words.text for words in items_of(page, Words) if words.tone == "bad"]
    assert len(bad) == 2 and "record.json: not a whole record" in bad[1] and items_of(page, Chart)


@pytest.mark.parametrize("name", list(reproduction.STUDIES))
def test_a_study_with_cells_of_another_version_gets_no_verdicts(tmp_path, name):
    first, *_ = fill(tmp_path, name)
    first.rename(first.with_name("older.nc"))
    page = build_page([tmp_path])
    assert any("older. Remove" in words.text for words in items_of(page, Words) if words.tone == "bad")
    assert not [table for table in items_of(page, Table) if table.title == "Claims"]


def test_nothing_there(tmp_path):
    with pytest.raises(ValueError, match="no records there"):
        build_page([tmp_path])
    with pytest.raises(ValueError, match="no such file or folder"):
        build_page([tmp_path / "missing"])


def test_names_cannot_leave_the_data_of_the_page(tmp_path):
    write_sweep(tmp_path / "sweep", (EVIL, "plain"), setting=EVIL)
    html = to_html(build_page([tmp_path]))
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert data is not None and "<" not in data[1] and EVIL in json.loads(data[1])["sections"][1]["title"]
    title = to_html(Page(EVIL, "", []))
    assert f"<title>{EVIL}" not in title and "&lt;img" in title


def test_only_the_own_scripts_may_run_and_nothing_is_fetched():
    html = to_html(Page("report", "", []))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None and "default-src 'none'" in policy[1] and "connect-src 'none'" in policy[1]
    scripts = re.findall(r"<script>(.*?)</script>", html, re.S)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert "unsafe-inline" not in policy[1].partition("script-src")[2]
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", html.replace("".join(scripts), ""))


def test_the_command(tmp_path):
    fill(tmp_path / "runs", "star")
    out = tmp_path / "report.html"
    told = CliRunner().invoke(app, ["report", str(tmp_path / "runs"), "--out", str(out)])
    assert told.exit_code == 0 and str(out) in told.output.replace("\n", "")
    assert out.read_text().startswith("<!doctype html>") and out.stat().st_size < 10e6
    told = CliRunner().invoke(app, ["report", str(tmp_path / "runs"), "--out", str(tmp_path)])
    assert isinstance(told.exception, ValueError) and "this is a folder" in str(told.exception)


def test_without_plotly_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"pip install 'gaussbell\[report\]'"):
        to_html(Page("report", "", []))


# ---- a user's own runs


def test_the_page_of_an_evaluation_of_a_chain():
    chain = gb.environments.SevenStar().under()
    features = gb.encodings.normal(7, 2, key=0)
    found = gb.evaluate(gb.MLP((2, 7, 1), key=0), chain, features=features)
    losses = np.asarray(found.history.loss)
    kept = Evaluation(found.network, chain, features, found.status.name, losses, "star")
    diagnosis = diagnose(kept, landscape=False)
    assert np.allclose(diagnosis["maps"]["value"], chain.values, atol=1e-6)
    assert np.abs(diagnosis["maps"]["residual"]).max() < 1e-6
    record = {
        "command": "evaluate",
        "settings": {"problem": "star", "seed": 0},
        "versions": gb.records.versions(),
        "result": {"status": found.status.name, "message": EVIL, "value_error": 0.0, "warnings": []},
        "values": {"learned": diagnosis["maps"]["value"], "exact": chain.values},
        "history": {"msbe": losses},
    }
    page = page_of_evaluation(record, diagnosis)
    titles = [chart.title for chart in items_of(page, Chart)]
    assert titles == ["Value by state", "Residual by state", "Convergence", "Spectrum of the Jacobians"]
    assert any(words.tone == "good" and "trusted" in words.text for words in items_of(page, Words))
    convergence = items_of(page, Chart)[2].series[0].columns["y"]
    assert np.array_equal(convergence, losses)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_slices_show_the_network_where_the_rows_are(width):
    rng = np.random.default_rng(width)
    state, after = rng.normal(size=(2, 60, width))
    action = rng.integers(0, 2, 60)
    data = gb.Transitions(state, state[:, 0], after, 0.9, action=action, next_action=action)
    network = gb.MLP((width + 1, 4, 1), key=0)
    diagnosis = diagnose(Evaluation(network, data, None, "CONVERGED", np.ones(2), None), landscape=False)
    maps = diagnosis["maps"]
    pairs = {1: 1, 2: 1, 5: 6}[width]  # of the four axes along which the value changes most
    assert len(maps["slices"]) == 2 * pairs
    one = maps["slices"][-1]
    point = np.median(state, axis=0)
    point[one["axes"][0]] = one["x"][3]
    place = (3,)
    if width > 1:
        point[one["axes"][1]] = one["y"][7]
        place = (7, 3)
    assert one["value"][place] == pytest.approx(values_at(network, np.r_[point, one["action"]][None])[0])
    residual = values_at(network, data.inputs) - state[:, 0] - 0.9 * values_at(network, data.next_inputs)
    assert np.allclose(maps["rows"]["residual"], residual)
    record = {"settings": {"data": "rows"}, "versions": {}, "result": {"status": "CONVERGED"}}
    charts = items_of(page_of_evaluation(record, diagnosis), Chart)
    shown = next(chart for chart in charts if chart.title in ("Value", "Value map"))
    assert len(shown.series) == 2 * pairs and (width == 1 or shown.solid)


def test_the_page_of_an_iteration(tmp_path):
    pole = gb.environments.CartPole()
    episode = play_episode(pole, "cart-pole", lambda s: (s[2] + 0.3 * s[3] > 0).astype(int), 0)
    assert episode["drawing"] == "cart-pole" and set(episode["columns"]["action"]) == {"left", "right"}
    sweep = {"returns": [1, 0, 2], "steps": [100, 90, 110], "msbe": 1e-3}
    run = {"seed": 0, "status": "SOLVED", "score": 500.0, "sweeps": 1, "total": 5, "seconds": 1.0}
    run |= {"warnings": [], "error": "", "transitions": {"training": 5}, "history": [sweep]}
    record = {
        "command": "iterate",
        "settings": {"problem": EVIL, "seed": 0, "seeds": 1, "sweeps": 1},
        "task": {"kind": "Survive", "length": 500},
        "versions": gb.records.versions(),
        "runs": [run],
        "episode": episode,
    }
    page = page_of_iteration(record, None)
    (scene,) = items_of(page, Scene)
    assert np.array_equal(scene.columns["angle"], episode["columns"]["angle"])
    gb.records.write(tmp_path / "record.json", record)
    again = items_of(build_page([tmp_path]), Scene)
    assert np.array_equal(again[0].columns["angle"], episode["columns"]["angle"])
    record["episode"] = {"drawing": None, "columns": {"state 0": [0.0, 1.0]}}
    assert not items_of(page_of_iteration(record, None), Scene)
    assert EVIL not in to_html(page)


def test_how_a_solve_ended_is_always_said():
    tones = {}
    for status in gb.Status:
        record = {"settings": {"data": "log"}, "versions": {}, "result": {"status": status.name}}
        (words,) = items_of(page_of_evaluation(record, None), Words)
        assert words.text == status.value
        tones.setdefault(words.tone, set()).add(status)
    assert tones["good"] == {status for status in gb.Status if status.succeeded}
    assert tones["bad"] == {gb.Status.DIVERGED, gb.Status.NOT_FINITE_AT_START}


def test_the_goal_of_steps_is_no_time_limit():
    sweep = {"returns": [1, 0, 2], "steps": [100, 90, 110], "msbe": 1e-3}
    run = {"seed": 0, "status": "SOLVED", "score": 5.0, "sweeps": 1, "total": 5, "seconds": 1.0}
    run |= {"warnings": [], "error": "", "transitions": {"training": 5}, "history": [sweep]}
    record = {"settings": {"problem": "x"}, "versions": {}, "runs": [run]}
    for task, goal in (
        ({"kind": "Earn", "at_least": -110, "length": 200}, {"return of an episode": -110.0}),
        ({"kind": "Survive", "length": 500}, {"steps of an episode": 500.0}),
        ({"kind": "Reach", "within": 110, "length": 200}, {"steps of an episode": 110.0}),
    ):
        chart = items_of(page_of_iteration(record | {"task": task}, None), Chart)[0]
        drawn = {one.facets["quantity"]: one.columns["y"][0] for one in chart.series if one.label == "goal"}
        assert drawn == goal


def test_a_new_record_takes_the_old_diagnosis_away(tmp_path):
    (tmp_path / "diagnosis.json").write_text("{}")
    write_record(tmp_path, {"command": "evaluate"}, {})
    assert not (tmp_path / "diagnosis.json").exists() and (tmp_path / "record.json").exists()


def test_evaluate_and_iterate_refuse_a_report_that_cannot_be_written(tmp_path):
    for words in (["evaluate", "star"], ["iterate", "cart-pole"]):
        told = CliRunner().invoke(app, [*words, "--report", str(tmp_path)])
        assert isinstance(told.exception, ValueError) and "this is a folder" in str(told.exception)
        (tmp_path / "file").touch()
        told = CliRunner().invoke(app, [*words, "--report", str(tmp_path / "file/report.html")])
        assert isinstance(told.exception, ValueError) and "cannot be made a folder" in str(told.exception)


def test_the_records_of_the_documents_make_a_report():
    page = build_page([ROOT / "docs/beyond", ROOT / "docs/bench"])
    anchors = {section.anchor for section in page.sections}
    assert {"values", "noise", "control", "endings", "bench-step-time"} <= anchors
    assert not [words for words in items_of(page, Words) if words.tone == "bad"]


# ---- while a sweep runs


def ask(server, path="/", method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{server.server_address[1]}"})
    return connection.getresponse()


@pytest.fixture
def serving(tmp_path):
    with make_server(tmp_path, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path, server
        server.shutdown()


def news(answer):
    """The pages that a stream of events holds."""
    for line in iter(answer.readline, b""):
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def test_cells_appear_as_they_finish(serving):
    folder, server = serving
    pages = news(ask(server, "/events"))
    assert "yet" in next(pages)["sections"][0]["items"][0]["text"]
    write_sweep(folder / "sweep", (EVIL,))
    gb.records.write(folder / "sweep/sweep.json", {"cells": 7})
    page = next(pages)
    bar, newest = page["sections"][0]["items"]
    assert (bar["done"], newest["rows"][0][1]) == (1, "cell0")
    assert EVIL not in ask(server).read().decode()


def test_the_page_can_only_be_read_and_only_under_its_own_name(serving):
    _, server = serving
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server).status == 200
    assert ask(server, "/etc/passwd").status == ask(server, "/../secrets").status == 404
    assert ask(server, host="evil.example").status == 421
    for method in ("POST", "PUT", "DELETE"):
        assert ask(server, method=method).status == 501


def test_a_large_folder_fills_in_and_damaged_cells_are_named(tmp_path):
    paths = fill(tmp_path, "assessments")
    assert MOST_AT_ONCE < len(paths) < 2 * MOST_AT_ONCE
    watcher = Watcher(tmp_path)
    done = []
    for _ in range(2):
        assert watcher.look()
        bar = items_of(watcher.page(), Bar)[0]
        done.append(bar.done)
    assert done == [MOST_AT_ONCE, len(paths)] and bar.total == len(paths)
    assert not watcher.look()
    paths[0].write_bytes(b"cut")
    assert watcher.look() and any(str(paths[0]) in words.text for words in items_of(watcher.page(), Words))
    assert watcher.draw() and items_of(watcher.page(), Chart) and not watcher.draw()


def test_the_live_page_follows_what_changes_and_what_goes(tmp_path):
    watcher = Watcher(tmp_path)
    write_sweep(tmp_path / "first")
    write_sweep(tmp_path / "second", ("c",))
    assert watcher.look() and watcher.draw()
    anchors = [section.anchor for section in watcher.page().sections]
    assert len(set(anchors)) == 3
    again = xarray.Dataset({"score": 7.0, "path": ("step", np.arange(3.0))})
    path = tmp_path / "second/cells/cell0.nc"
    cell_files.write_cell(path, {"name": "c", "number": 0}, again, about={}, seconds=0.5)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 10**9))
    assert watcher.look() and watcher.draw()
    assert items_of(watcher.page(), Chart)[1].series[0].columns["y"].tolist() == [7.0]
    shutil.rmtree(tmp_path / "first")
    assert watcher.look() and watcher.draw()
    assert [section.anchor for section in watcher.page().sections] == [anchors[0], anchors[2]]
    write_sweep(tmp_path / "third", ("d",))
    assert watcher.look() and watcher.draw()
    assert len({section.anchor for section in watcher.page().sections}) == 3


def test_one_bad_sweep_does_not_stop_the_live_page(tmp_path, monkeypatch):
    write_sweep(tmp_path / "bad")
    write_sweep(tmp_path / "good")
    describe = sweeps.describe

    def fails(folder, *others):
        if folder.name == "bad":
            raise KeyError("score")
        return describe(folder, *others)

    monkeypatch.setattr(sweeps, "describe", fails)
    watcher = Watcher(tmp_path)
    assert watcher.look() and watcher.draw() and items_of(watcher.page(), Chart)
    assert any("do not go together: KeyError" in words.text for words in items_of(watcher.page(), Words))
    monkeypatch.setattr(Path, "rglob", lambda *_: (_ for _ in ()).throw(FileNotFoundError()))
    assert not watcher.look() and items_of(watcher.page(), Chart)


def test_an_address_that_is_taken(serving):
    _, server = serving
    with pytest.raises(ValueError, match="--port 0 for any"):
        make_server(Path(), "127.0.0.1", server.server_address[1])


def test_a_report_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(gb.records.files.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_report(Page("new", "", [Section("a", "b", [])]), path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1
