"""Cells of studies with made-up numbers of the right shape, without the work."""

import itertools
import zlib

import numpy as np
import xarray

from gaussbell.experiments import fits, generalisation, reproduction
from gaussbell.experiments.critical_points import MINIMA
from gaussbell.experiments.methods import OURS
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import name_of
from gaussbell.records import cells as cell_files


def made_up(study, cell, points=(4, 3)):
    """Numbers in the shape of a cell's, without the work."""
    rng = np.random.default_rng(zlib.crc32(name_of(cell).encode()))
    if study in ("star", "propositions", "trust"):
        return {"star": _star, "propositions": _propositions, "trust": _trust}[study](cell, rng)
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
    return xarray.Dataset(columns | {"rows": 20, "parameters": 61}, coords={"start": np.arange(starts)})


def _trust(cell, rng):
    states = 5
    found = {"spread": rng.uniform(1, 2), "rmse": 10 ** rng.uniform(-2, 1), "median": rng.uniform(-100, -98)}
    found |= {"reward_coverage": rng.uniform(), "error": ("state", rng.uniform(size=states))}
    for witness in ("simulator", "rows"):
        for name in ("estimate", "relative", "rank_correlation"):
            found[f"{witness}_{name}"] = rng.uniform(0.05, 1)
        found[f"{witness}_trusted"] = int(rng.integers(2))
        found[f"{witness}_score"] = ("state", rng.uniform(size=states))
    return xarray.Dataset(found, coords={"state": np.arange(states)})


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
