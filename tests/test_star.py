"""The star experiment: statistics with fixed seeds."""

import json

import numpy as np
import pytest

from gaussbell import figures, records
from gaussbell.diagnostics import order_of_convergence
from gaussbell.experiments import star


@pytest.fixture(scope="module")
def record():
    return records.to_plain(star.run(star.Settings(num_seeds=8, seed=77)))


def test_constant_damping_is_linear_and_fading_damping_quadratic(record):
    constant, none, fading = (record["methods"][name] for name in (star.CONSTANT, star.NONE, star.FADING))
    assert fading["reached"] == none["reached"] == 8
    assert constant["reached"] < 8
    assert constant["order_quartiles"][1] == pytest.approx(1.0, abs=0.05)
    assert none["order_quartiles"][1] > 1.6
    assert fading["order_quartiles"][1] > 1.8
    assert fading["worst_best_msbe"] < 1e-24


def test_summary_and_figure_come_from_the_record_alone(record, tmp_path):
    read = json.loads(json.dumps(record))
    assert star.summarise(read).count("\n") == 5
    path = figures.save(star.draw(read), tmp_path / "star.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["star.png"]


def test_order_of_convergence():
    quadratic = [0.1 ** (2**k) for k in range(5)]
    assert order_of_convergence(quadratic, floor=1e-20) == pytest.approx(2)
    assert order_of_convergence([0.9**k for k in range(50)], floor=0.0) == pytest.approx(1)
    assert np.isnan(order_of_convergence([1.0, 0.1], floor=0.0))
    assert order_of_convergence([*quadratic, 3e-17, 2e-17, 1e-17], floor=1e-16) == pytest.approx(2)
