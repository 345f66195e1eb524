"""The experiments on values and noise: resuming, and drawing from records alone."""

import json
from pathlib import Path

import pytest

import gaussbell as gb
from gaussbell import figures, records
from gaussbell.experiments import noise, values

DOCS = Path(__file__).parents[2] / "docs"
SMALL = values.Settings(
    steps=(1, 5, values.SUPERVISED), seeds=(1, 2), grid=4, budgets=(600,), budget_steps=(1, values.AUTO)
)


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    done = []

    def measure(settings, car, truth, cell):
        if len(done) == 7:
            done.append("stop")
            raise KeyboardInterrupt
        done.append(cell)
        return {"error": 0.5, "error_ahead": 0.1, "estimate": 0.6, "chosen": 5}

    monkeypatch.setattr(values, "_measure", measure)
    with pytest.raises(KeyboardInterrupt):
        values.run(SMALL, tmp_path)
    told = []
    record = values.run(SMALL, tmp_path, told.append)
    cells = values.list_cells(SMALL)
    assert len(record["cells"]) == len(cells) == len(done) - 1
    assert told[0].startswith("8 of")
    summary = values.summarise(records.to_plain(record))
    assert "| 600 |" in summary and "0.500 (0.500 to 0.500)" in summary


@pytest.mark.slow
def test_a_cell():
    car = gb.environments.MountainCar()
    truth = gb.monte_carlo.value_on_grid(car, car.along_velocity, (30, 30))
    settings = values.Settings(samples=60, max_steps=20)
    cell = {"network": values.PLAIN, "steps": values.SUPERVISED, "seed": 1, "budget": None}
    measured = values._measure(settings, car, truth, cell)
    assert measured["error"] < 1.5 and measured["error_ahead"] < measured["error"]


@pytest.mark.parametrize("experiment", [values, noise], ids=["values", "noise"])
def test_figures_come_from_the_record_alone(experiment, tmp_path):
    name = experiment.__name__.split(".")[-1]
    record = json.loads((DOCS / name / "record.json").read_text())
    path = figures.save(experiment.draw(record), tmp_path / f"{name}.png")
    assert path.read_bytes().startswith(b"\x89PNG")
