"""Cells of studies with made-up numbers of the right shape, without the work."""

import itertools
import zlib

import numpy as np
import xarray

from gaussbell.experiments import control, endings, fits, generalisation, noise, reproduction, values
from gaussbell.experiments.critical_points import MINIMA
from gaussbell.experiments.methods import OURS
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import name_of
from gaussbell.records import cells as cell_files


def made_up(study, cell, points=(4, 3)):
    """Numbers in the shape of a cell's, without the work."""
    rng = np.random.default_rng(zlib.crc32(name_of(cell).encode()))
    shapes = {
        "star": _star,
        "propositions": _propositions,
        "assessments": _assessments,
        "values": _values,
        "noise": _noise,
        "control": _control,
        "endings": _endings,
    }
    if study in shapes:
        return shapes[study](cell, rng)
    if study == "policy-iteration":
        sweeps = cell["sweeps"]
        steps = np.sort(rng.uniform(10, 500, (sweeps, 3)), axis=1)
        columns = {
            name: ("sweep", column)
            for name, column in zip(("steps_least", "steps_mean", "steps_most"), steps.T, strict=True)
        }
        columns |= {name: ("sweep", rng.uniform(size=sweeps)) for name in ("msbe", "low", "high", "score")}
        return xarray.Dataset(
            columns | {"solved": int(cell["method"] == OURS), "transitions": 100},
            coords={"sweep": np.arange(1, sweeps + 1)},
        )
    axes = ("position", "velocity")
    surface = (axes, rng.uniform(-100, -98, points).astype(np.float32))
    coords = {axis: np.arange(float(count)) for axis, count in zip(axes, points, strict=True)}
    if cell["method"] == generalisation.TRUTH:
        return xarray.Dataset({"surface": surface}, coords=coords)
    kept = fits.curve_points(cell["iterations"])
    sizes = fits.sizes_of(cell)
    return xarray.Dataset(
        {
            "msbe": ("iteration", np.geomspace(1, 1e-6, len(kept)) * rng.uniform(0.5, 2)),
            "training": 10 ** rng.uniform(-8, -3),
            "test": 10 ** rng.uniform(-5, -1),
            "diverged": 0,
            "used": cell["iterations"],
            "value_error": rng.uniform(0.1, 3),
            "correlation": rng.uniform(),
            "parameters": sum((a + 1) * b for a, b in itertools.pairwise(sizes)),
            "surface": surface,
        },
        coords=coords | {"iteration": kept},
    )


def _star(cell, rng):
    shape = cell["starts"], cell["shown"] + 1
    falling = np.geomspace(1, 1e-12, shape[1]) * rng.uniform(0.5, 2, shape)
    return xarray.Dataset(
        {
            "msbe": (("start", "iteration"), falling**2),
            "distance": (("start", "iteration"), falling),
            "floor": ("start", np.full(shape[0], 1e-10)),
            "order": ("start", rng.uniform(1, 2, shape[0])),
        },
        coords={"start": np.arange(shape[0]), "iteration": np.arange(shape[1])},
    )


def _propositions(cell, rng):
    starts = cell["starts"]
    if cell["part"] != MINIMA:
        names = ("condition", "effective_rank", "amplification")
        columns = {name: ("start", 10 ** rng.uniform(0, 3, starts)) for name in names}
        return xarray.Dataset(columns, coords={"start": np.arange(starts)})
    real = {name: ("start", 10 ** rng.uniform(-20, 0, starts)) for name in ("loss", "gradient", "lowest")}
    real |= {name: ("start", rng.uniform(1, 9, starts)) for name in ("effective_rank", "value_error")}
    whole = {name: ("start", rng.integers(1, 20, starts)) for name in ("rank", "first_rank", "hessian_rank")}
    columns = real | whole | {"first_effective_rank": ("start", rng.uniform(1, 9, starts))}
    return xarray.Dataset(columns | {"samples": 20, "parameters": 61}, coords={"start": np.arange(starts)})


def _assessments(cell, rng):
    states = 5
    found = {"spread": rng.uniform(1, 2), "rmse": 10 ** rng.uniform(-2, 1), "median": rng.uniform(-100, -98)}
    found |= {"reward_coverage": rng.uniform(), "error": ("state", rng.uniform(size=states))}
    for reference in ("simulator", "data"):
        for name in ("estimate", "relative", "rank_correlation"):
            found[f"{reference}_{name}"] = rng.uniform(0.05, 1)
        found[f"{reference}_trusted"] = int(rng.integers(2))
        found[f"{reference}_score"] = ("state", rng.uniform(size=states))
    return xarray.Dataset(found, coords={"state": np.arange(states)})


def _values(cell, rng):
    found = {"error": 10 ** rng.uniform(-1, 0), "error_ahead": 10 ** rng.uniform(-2, -1), "solver_steps": 10}
    if cell["target"] != values.SUPERVISED:
        found |= {"estimate": 10 ** rng.uniform(-1, 0), "chosen": cell.get("n_step", 20)}
    return xarray.Dataset(found)


def _noise(cell, rng):
    if cell["problem"] in (noise.EXACT, noise.LAKE):
        return xarray.Dataset({"error": 1e-14})
    return xarray.Dataset({"error": rng.uniform(0.9, 1.1) / cell["successors"]})


def _control(cell, rng):
    if cell["question"] == control.Q:
        prefixes = ("", "own_") if cell["policy"] == control.FOUND else ("",)
        found = {
            f"{prefix}{name}": ("place", rng.uniform(size=3))
            for prefix in prefixes
            for name in ("rmse", "spread")
        }
        return xarray.Dataset(
            found | {f"{prefix}correlation": ("place", [0.98, np.nan, 0.9]) for prefix in prefixes}
        )
    sweeps = np.arange(1, cell["sweeps"] + 1)
    found = {
        "solved": int(cell["seed"] % 2 == 0),
        "used": 2,
        "score": 480.0,
        "best_score": ("sweep", np.where(sweeps <= 2, 200.0 * sweeps, np.nan)),
        "transitions": ("purpose", [1000, 2000, 4000]),
        "elapsed": 4.0,
    }
    if cell["question"] == control.SOLVE and cell["problem"] == control.CART:
        found |= {"survive_500": 1.0, "survive_2000": 0.5, "survive_wide": 0.9}
    elif cell["question"] == control.SOLVE:
        found["fresh_score"] = -100.0
    return xarray.Dataset(found, coords={"sweep": sweeps})


def _endings(cell, rng):
    if cell["question"] == endings.SWEEPS:
        solved = int(cell["ending"] == endings.RESTART)
        return xarray.Dataset({"solved": solved, "used": 2, "score": 300.0, "elapsed": 1.0})
    after = {endings.RESTART: 300.0, endings.ELSEWHERE: 90.0}.get(cell["ending"], 100.0)
    if cell["question"] == endings.GAP:
        return xarray.Dataset({"after": after, "gap": rng.uniform(0.3, 0.4) if after == 300 else 0.1})
    found = {"before": 9.0, "after": 36.0, "correlation": 0.7, "matters_where_visited": 0.5, "right": 0.9}
    return xarray.Dataset(found)


def fill(folder, name, scale=Scale.SMOKE, most=None, points=(4, 3)):
    """A study's folder, with made-up cells: all, or at most so many."""
    sweep = reproduction.STUDIES[name].sweep(scale)
    target = reproduction.folder_of(folder, scale, name) / "cells"
    return [
        cell_files.write_cell(
            target / f"{sweep.name(cell)}.nc",
            cell,
            made_up(name, cell, points),
            about=sweep.about,
            seconds=1.0,
        )
        for cell in sweep.cells[:most]
    ]
