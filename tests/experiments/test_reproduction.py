"""The paper's studies: every claim judged and every figure drawn from cells alone, and the commands."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import gaussbell as gb
from gaussbell import figures
from gaussbell.cli import app, main
from gaussbell.experiments import fits, policy_iteration, reproduction
from gaussbell.experiments.methods import GAUSS_NEWTON, RESIDUAL_GRADIENT
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Verdict, all_of, by_share
from made_up_cells import fill

ROOT = Path(__file__).parents[2]


def drawn_on(path):
    """Are there marks in colour, not only the black, white and grey of axes and text?"""
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3).astype(int)
    return (np.ptp(pixels, axis=1) > 60).mean() > 1e-3


DOCS = ROOT / "docs/reproduction"


MADE_UP = [
    "convergence",
    "generalisation",
    "architectures",
    "policy-iteration",
    "assessments",
    *reproduction.GROUPS["beyond"].studies,
]


@pytest.mark.parametrize("name", MADE_UP)
def test_claims_are_judged_and_figures_drawn_from_cells_alone(tmp_path, name):
    study = reproduction.STUDIES[name]
    paths = fill(tmp_path, name)
    data = gb.records.open(tmp_path)
    record = reproduction.summarise(study, Scale.SMOKE, data)
    assert len(record["claims"]) == len(study.claims) >= 3 and record["cells"] == len(paths)
    assert all(claim["measured"] and "nan" not in claim["measured"] for claim in record["claims"])
    assert record["table"].startswith("|")
    for title, figure in study.draw(data).items():
        for suffix in ("png", "pdf"):
            path = figures.save(figure, tmp_path / f"{title}.{suffix}")
            if suffix == "png":
                assert drawn_on(path), "axes without anything in them"


@pytest.mark.parametrize("study", reproduction.STUDIES.values(), ids=list(reproduction.STUDIES))
@pytest.mark.parametrize("scale", Scale)
def test_every_cell_has_a_name_a_group_and_a_cost_of_its_own(study, scale):
    sweep = study.sweep(scale)
    assert len({sweep.name(cell) for cell in sweep.cells}) == len(sweep.cells)
    assert all(sweep.cost(cell) > 0 and json.dumps(sweep.group(cell)) for cell in sweep.cells)
    assert sweep.about["experiment"] == study.name and len(sweep.about["claims"]) == len(study.claims)


def test_methods_share_data_and_first_weights():
    def start(method, **options):
        return float(fits.measure(fits.cell_of(method, 30, 3, iterations=2, grid=5, **options)).msbe[0])

    assert start(GAUSS_NEWTON, step_size=0.01) == start(RESIDUAL_GRADIENT, step_size=1.0)


def test_a_fit_is_what_evaluate_gives():
    cell = fits.cell_of(GAUSS_NEWTON, 30, 3, iterations=40, step_size=0.1, grid=5)
    found = fits.measure(cell)
    assert fits.measure(cell).identical(found)
    assert float(found.training) == float(found.msbe[-1]) < float(found.msbe[0])
    assert found.iteration.values[-1] == int(found.used) == 40
    assert float(found.test) > 0 and int(found.parameters) == 151


def test_a_run_of_algorithm_2_has_a_column_for_each_sweep():
    cell = next(cell for cell in policy_iteration.cells(Scale.SMOKE) if cell["method"] == GAUSS_NEWTON)
    found = policy_iteration.measure(cell)
    assert found.sizes == {"sweep": 2} and int(found.solved) == 0
    assert (found.steps_least <= found.steps_mean).all() and (found.steps_mean <= found.steps_most).all()
    assert (found.score <= 0).all() and (found.score >= -1).all()


def test_persistent_weights_are_better_only_beyond_chance():
    def gain(differences):
        best = {(policy_iteration.TRANSIENT, n, 500): 200.0 for n in range(6)}
        return policy_iteration.gain_of_persistence(
            best | {(policy_iteration.PERSISTENT, n, 500): 200.0 + d for n, d in enumerate(differences)}
        )

    text, better = gain([43, 22, 81, -15, 40, -102])  # by 11 on average, give or take 26
    assert not better and text == "212 and 200 (standard error of the difference 26)"
    assert gain([43, 22, 81, 15, 40, 102])[1] and not gain([-43, -22, -81, -15, -40, -102])[1]


def test_shares_become_verdicts():
    assert [by_share(share) for share in (1.0, 0.5, 0.0)] == [Verdict.HOLDS, Verdict.IN_PART, Verdict.FAILS]
    assert all_of(True, False) is Verdict.IN_PART and all_of(False) is Verdict.FAILS
    assert all_of(*[True] * 19, False) is Verdict.IN_PART and all_of(True, True) is Verdict.HOLDS


def test_a_changed_verdict_is_told_by_the_exit_code(tmp_path, monkeypatch):
    fill(tmp_path, "convergence")
    words = ["check", "convergence", "--scale", "smoke", "--out", str(tmp_path)]
    page = tmp_path / "pages/page.md"
    told = CliRunner().invoke(app, [*words, "--page", str(page)])
    assert told.exit_code == 0, told.output  # nothing is expected of this scale
    record = gb.records.read(tmp_path / "smoke/verdicts.json")
    assert page.read_text() == reproduction.page(record, "../smoke")
    expected = reproduction.verdicts(record["studies"])
    name = next(iter(expected))
    monkeypatch.setattr(reproduction, "expectations", lambda: {"smoke": expected})
    assert CliRunner().invoke(app, words).exit_code == 0
    other = "holds" if expected[name] != "holds" else "does not hold"
    monkeypatch.setattr(reproduction, "expectations", lambda: {"smoke": expected | {name: other}})
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 1 and f"changed: {name}: expected {other}" in told.output


def test_a_page_tells_the_studies_of_one_group(tmp_path):
    for name in ("convergence", "noise"):
        fill(tmp_path, name)
        words = ["check", name, "--scale", "smoke", "--out", str(tmp_path), "--page", str(tmp_path / name)]
        assert CliRunner().invoke(app, words).exit_code == 0
    assert "# Beyond the paper" in (tmp_path / "noise").read_text()
    assert "convergence" not in (tmp_path / "noise").read_text()


@pytest.mark.parametrize(
    ("folder", "page"),
    [
        ("reproduction/quick", "reproduction"),
        ("reproduction/paper", "reproduction-paper"),
        ("diagnostics/quick", "diagnostics"),
        ("beyond/quick", "beyond"),
    ],
)
def test_the_pages_come_from_the_records(folder, page):
    record = gb.records.read(ROOT / "docs" / folder / "verdicts.json")
    assert (ROOT / f"docs/{page}.md").read_text() == reproduction.page(record, folder)
    assert reproduction.changes(record["scale"], reproduction.verdicts(record["studies"])) == {}
    for name, study in record["studies"].items():
        for figure in study["figures"]:
            assert (ROOT / "docs" / folder / name / f"{figure}.png").exists()


def test_the_documents_show_the_star():
    record = gb.records.read(DOCS / "quick/verdicts.json")
    assert record["studies"]["star"]["table"].strip() in (ROOT / "docs/solvers.md").read_text()


def test_nothing_is_expected_of_a_study_that_was_not_run_at_a_scale(monkeypatch):
    monkeypatch.setattr(reproduction, "expectations", lambda: {"paper": {"star/quadratic": "holds"}})
    found = {"star/quadratic": "does not hold", "star/new": "holds", "architectures/level": "holds"}
    assert reproduction.changes("paper", found) == {
        "star/quadratic": ("holds", "does not hold"),
        "star/new": ("nothing", "holds"),
    }
    assert reproduction.changes("smoke", found) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "stra"], "experiment='stra': there is none of this name; choose all, diagnostics,"),
        (["check", "star", "--out", "nowhere"], "star: 3 of 3 cells are missing in nowhere/quick/star; run"),
        (["reproduce", "star", "--out", "file/below"], "--out file/below: cannot be made a folder"),
        (
            ["reproduce", "star", "--scheduler", "tcp://127.0.0.1:9"],
            "scheduler='tcp://127.0.0.1:9': no Dask scheduler answers there",
        ),
    ],
)
def test_errors_name_the_argument_and_the_remedy(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    monkeypatch.setattr("sys.argv", ["gaussbell", *words])
    monkeypatch.setattr("gaussbell.sweeps.executors.CONNECT_SECONDS", 0.5)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_the_list_names_every_experiment():
    told = CliRunner().invoke(app, ["list"])
    assert told.exit_code == 0
    for name in (*reproduction.GROUPS, *reproduction.STUDIES):
        assert name in told.output


@pytest.mark.slow
@pytest.mark.parametrize(("name", "drawn"), [("all", 7), ("diagnostics", 2), ("beyond", 4)])
def test_the_smallest_scale_of_everything_runs_from_the_command_line(tmp_path, name, drawn):
    told = CliRunner().invoke(app, ["reproduce", name, "--scale", "smoke", "--out", str(tmp_path)])
    assert told.exit_code == 0, told.output
    assert len(list(tmp_path.glob("smoke/*/*.png"))) == drawn
