"""The star experiment: statistics with fixed seeds."""

import numpy as np
import pytest

from gaussbell import figures
from gaussbell.diagnostics import order_of_convergence
from gaussbell.experiments import star
from gaussbell.experiments.scale import Scale
from gaussbell.records import cells as cell_files


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, paths = tmp_path_factory.mktemp("star"), []
    for number, cell in enumerate(star.cells(Scale.QUICK)):
        cell |= {"starts": 8, "seed": 77}
        path = folder / f"{number}.nc"
        paths.append(cell_files.write_cell(path, cell, star.measure(cell), about={}, seconds=1.0))
    return cell_files.gather(paths)


def test_constant_damping_is_linear_and_fading_damping_quadratic(data):
    orders = {name: np.nanmedian(star.select(data, method=name).order) for name in star.SOLVERS}
    best = {name: np.nanmin(star.select(data, method=name).msbe, axis=-1) for name in star.SOLVERS}
    assert (best[star.FADING] < 1e-24).all() and (best[star.NONE] <= star.NEGLIGIBLE).all()
    assert (best[star.CONSTANT] <= star.NEGLIGIBLE).sum() < 8
    assert orders[star.CONSTANT] == pytest.approx(1.0, abs=0.05)
    assert orders[star.NONE] > 1.6
    assert orders[star.FADING] > 1.8


def test_verdicts_table_and_figure_come_from_the_cells_alone(data, tmp_path):
    verdicts = {name: str(finding.verdict) for name, finding in star.check(data).items()}
    assert verdicts == {
        "quadratic": "holds in part",
        "negligible": "holds in part",
        "no-bad-minima": "holds",
    }
    assert star.tabulate(data).count("\n") == 5
    path = figures.save(star.draw(data)["star"], tmp_path / "star.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["star.png"]


def test_order_of_convergence():
    quadratic = [0.1 ** (2**k) for k in range(5)]
    assert order_of_convergence(quadratic, floor=1e-20) == pytest.approx(2)
    assert order_of_convergence([0.9**k for k in range(50)], floor=0.0) == pytest.approx(1)
    assert np.isnan(order_of_convergence([1.0, 0.1], floor=0.0))
    assert order_of_convergence([*quadratic, 3e-17, 2e-17, 1e-17], floor=1e-16) == pytest.approx(2)
