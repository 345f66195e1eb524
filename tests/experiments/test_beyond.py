"""The studies beyond the paper: what a cell measures, and what the claims make of cells."""

import numpy as np
import pytest

import gaussbell as gb
from gaussbell.experiments import control, endings, noise, reproduction, values
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import Verdict, select
from made_up_cells import fill


def judged(folder, study):
    fill(folder, study.name, Scale.QUICK)
    data = gb.records.open(folder)
    return data, {claim.name: finding for claim, finding in study.findings(data)}


def test_auto_is_compared_seed_by_seed(tmp_path):
    data, found = judged(tmp_path, values.STUDY)
    ratios, best = values.compare_auto(data, 20_000)
    fixed = select(data, budget=20_000, target=values.N_STEP, seed=912)
    auto = select(data, budget=20_000, target=values.AUTO, seed=912)
    assert best[2] == fixed.error.min() and ratios[2] == float(auto.error[0]) / best[2]
    assert len(ratios) == 5 and str(round(float(np.median(ratios)), 2)) in found["auto"].measured


def test_the_slope_of_the_bias(tmp_path):
    data, found = judged(tmp_path, noise.STUDY)
    assert noise.slope_of(data) == pytest.approx(-1, abs=0.1)
    assert found["falls"].verdict is Verdict.HOLDS and found["all"].verdict is Verdict.HOLDS
    assert found["single-steps"].verdict is Verdict.IN_PART  # the made-up errors fall with single steps too


def test_half_solved_is_in_part(tmp_path):
    data, found = judged(tmp_path, control.STUDY)
    assert found["solved"].verdict is Verdict.IN_PART and "cart-pole: 10 of 20" in found["solved"].measured
    assert found["cost"] == ("median 7,000 (7,000 to 7,000)", Verdict.HOLDS)
    assert found["lasts"].verdict is Verdict.FAILS
    table = control.tabulate(data)
    assert "| found | evaluation | visited | not defined |" in table
    assert "| cart-pole | 10 of 20 | 2 (2 to 2) | 7,000 (7,000 to 7,000) | 1,000 (1,000 to 1,000) |" in table


def test_endings_are_told_apart(tmp_path):
    data, found = judged(tmp_path, endings.STUDY)
    assert {finding.verdict for finding in found.values()} == {Verdict.HOLDS}
    assert "| restart elsewhere | 90, 0.10 |" in endings.tabulate(data)


def test_cells_of_the_noise_study_measure_the_error():
    cells = reproduction.STUDIES["noise"].cells(Scale.SMOKE)
    one, many = (
        next(cell for cell in cells if cell["problem"] == noise.FINITE and cell["successors"] == count)
        for count in (1, 64)
    )
    assert float(noise.measure(many).error) < 0.5 * float(noise.measure(one).error)
    assert float(noise.measure({"problem": noise.EXACT, "seed": 700}).error) < 1e-12


@pytest.mark.slow
def test_a_supervised_fit_is_a_floor():
    cell = {"network": values.PLAIN, "target": values.SUPERVISED, "samples": 60, "max_steps": 20, "grid": 30}
    found = values.measure(cell | {"seed": 1})
    assert float(found.error) < 1.5 and float(found.error_ahead) < float(found.error)
