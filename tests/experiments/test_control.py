"""The experiment on control: its cells, and tables and figure from the record alone."""

import numpy as np
import pytest

from gaussbell import figures, records
from gaussbell.experiments import control

SMALL = control.Settings(
    cart_seeds=(1, 2),
    other_seeds=(3,),
    step_sizes=(1.0,),
    method_seeds=(4,),
    ending_seeds=(5,),
    gap_seeds=(7,),
    q_seeds=(6,),
)


def measured(cell):
    """Made-up figures in the shape of a cell's."""
    agreement = {"correlation": np.nan, "rmse": 0.1, "spread": 0.0}
    if cell["study"] == "q":
        return {
            "seconds": 1.0,
            "estimate": 0.1,
            "uniform": agreement | {"correlation": 0.9},
            "visited": agreement,
        }
    if cell["study"] == "improve":
        return {"before": 9.0, "after": 36.0, "correlation": 0.7, "matters_where_visited": 0.5, "right": 0.9}
    if cell["study"] == "gap":
        return {"after": 90.0, "gap": 0.25}
    run = {
        "status": "SOLVED" if cell["seed"] != 2 else "OUT_OF_SWEEPS",
        "sweeps": 4,
        "score": 500.0,
        "best_scores": [10.0, 500.0],
        "transitions": {"training": 1, "roll-outs": 2, "confirmation": 3},
        "total": 6,
        "seconds": 2.0,
    }
    return run | {"survive_500": 1.0, "survive_2000": 0.5, "survive_wide": 0.9}


def test_it_goes_on_where_it_stopped_and_tells_by_tables_and_a_figure(tmp_path, monkeypatch):
    done = []

    def measure(settings, cell):
        done.append(cell)
        if len(done) == 3:
            raise KeyboardInterrupt
        return measured(cell)

    for name in ("_solve", "_method", "_ending", "_improve", "_gap", "_q"):
        monkeypatch.setattr(control, name, measure)
    with pytest.raises(KeyboardInterrupt):
        control.run(SMALL, tmp_path)
    record = records.to_plain(control.run(SMALL, tmp_path))
    cells = control.list_cells(SMALL)
    assert len(record["cells"]) == len(cells) == len(done) - 1
    assert len({tuple(cell.items()) for cell in cells}) == len(cells)
    summary = control.summarise(record)
    for text in (
        "| cart-pole | 1 of 2 | 4 (4 to 4) |",
        "0 of 2 hold 2,000",
        "| cart-pole, poor policy (9; actions matter in 50%) | end | 36, 90%, 0.70 |",
        "| restart elsewhere | 90, 0.25 |",
        "| given | visited | not defined |",
    ):
        assert text in summary
    path = figures.save(control.draw(record), tmp_path / "control.png")
    assert path.read_bytes().startswith(b"\x89PNG")
