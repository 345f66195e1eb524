"""Policy iteration on control problems: is it solved on every seed, what does it cost, and what matters?

Four questions. Is each task solved with the default settings on seeds that were used for nothing else? In
the same loop, how far do the four methods of the paper get? What changes if failure or the goal ends the
process instead of restarting it, and if rows span several steps? And how good are the Q-factors as values,
for a policy that was found and for one that was given? Every cell is a file.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import gaussbell as gb
from gaussbell import figures, records
from gaussbell.experiments.cells import Cell, run_cells, select
from gaussbell.iteration import Evaluation, Fresh, Mixed, Recipe, Starts, Uniform, Visited
from gaussbell.precision import double_throughout

CART, CAR, ACROBOT = "cart-pole", "mountain-car", "acrobot"
NARROW, WIDE = 0.05, (1.0, 0.5, 0.1, 0.5)
"""How far from upright at rest Cart Pole starts, in Gymnasium and in a harder test."""
METHODS: dict[str, Callable[[float], Any]] = {
    "semi-gradient": gb.SemiGradient,
    "residual gradient": gb.ResidualGradient,
    "semi-gradient Gauss-Newton": gb.SemiGaussNewton,
    "residual Gauss-Newton": gb.GaussNewton,
}
OURS = "Levenberg-Marquardt"


class Settings(NamedTuple):
    """What is run."""

    cart_seeds: tuple[int, ...] = tuple(range(1000, 1020))
    other_seeds: tuple[int, ...] = tuple(range(1100, 1110))
    sweeps: int = 40
    fresh_starts: int = 1000
    step_sizes: tuple[float, ...] = (1.0, 0.1, 0.01, 0.001)
    method_seeds: tuple[int, ...] = (1200, 1201, 1202)
    method_steps: int = 500
    few_sweeps: int = 10
    endings: tuple[str, ...] = ("restart", "end")
    steps: tuple[int, ...] = (1, 20, 100)
    ending_seeds: tuple[int, ...] = (1300, 1301, 1302)
    q_seeds: tuple[int, ...] = (1400, 1401, 1402)
    q_rows: int = 8000
    q_steps: int = 200


def balance(state: Any) -> Any:
    """A hand-made policy for Cart Pole that never fails from near the start."""
    return (state @ jnp.array([0.02, 0.05, 1.0, 0.3]) > 0).astype(int)


@double_throughout
def run(settings: Settings, folder: Path, on_progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """All cells that are not in `folder` yet, and then the whole record."""
    measures = {"solve": _solve, "method": _method, "ending": _ending, "q": _q}
    rows = run_cells(
        list_cells(settings),
        folder,
        lambda cell: measures[cell["study"]](settings, cell),
        name=lambda cell: "-".join(str(value).replace(" ", "_") for value in cell.values()),
        shape=lambda cell: [value for name, value in cell.items() if name not in ("seed", "step_size")],
        told=on_progress or (lambda text: None),
    )
    return {
        "experiment": "control",
        "settings": settings._asdict(),
        "versions": records.versions(),
        "cells": rows,
    }


def list_cells(settings: Settings) -> list[Cell]:
    """Every run."""
    seeds = {CART: settings.cart_seeds, CAR: settings.other_seeds, ACROBOT: settings.other_seeds}
    solve = [
        {"study": "solve", "problem": problem, "seed": seed} for problem in seeds for seed in seeds[problem]
    ]
    method = [
        {"study": "method", "method": method, "step_size": size, "seed": seed}
        for method in METHODS
        for size in settings.step_sizes
        for seed in settings.method_seeds
    ] + [
        {"study": "method", "method": OURS, "step_size": None, "seed": seed} for seed in settings.method_seeds
    ]
    ending = [
        {"study": "ending", "problem": problem, "ending": ending, "steps": steps, "seed": seed}
        for problem in (CART, CAR)
        for ending in settings.endings
        for steps in settings.steps
        for seed in settings.ending_seeds
    ]
    q = [
        {"study": "q", "policy": policy, "seed": seed}
        for policy in ("found", "given")
        for seed in settings.q_seeds
    ]
    return solve + method + ending + q


def environment(problem: str, ending: str | None = None) -> Any:
    """The environment of a problem, by default with the ending that suits it."""
    kinds = {
        CART: gb.environments.CartPole,
        CAR: gb.environments.MountainCar,
        ACROBOT: gb.environments.Acrobot,
    }
    return kinds[problem](ending=ending or ("restart" if problem == CART else "end"))


def _timed(env: Any, seed: int, sweeps: int, recipe: Recipe | None = None) -> tuple[Any, dict[str, Any]]:
    started = time.perf_counter()
    found = gb.policy_iteration(env, key=seed, sweeps=sweeps, recipe=recipe)
    return found, {
        "status": found.status.name,
        "sweeps": found.sweeps,
        "score": found.score,
        "best_scores": np.maximum.accumulate(found.column("score")),
        "transitions": found.transitions,
        "total": sum(found.transitions.values()),
        "correlation": found.history[-1].correlation,
        "warnings": found.warnings,
        "seconds": round(time.perf_counter() - started, 2),
    }


def _solve(settings: Settings, cell: Cell) -> dict[str, Any]:
    env, seed = environment(cell["problem"]), cell["seed"]
    found, told = _timed(env, seed, settings.sweeps)
    return told | _hold(settings, env, found.policy, seed)


def _hold(settings: Settings, env: Any, policy: Any, seed: int) -> dict[str, Any]:
    """How the policy does from fresh starts: survival of Cart Pole, mean steps of the others."""
    rng, count = np.random.default_rng([seed, 1]), settings.fresh_starts
    if not isinstance(env, gb.environments.CartPole):
        log = gb.rollouts.play(env, policy, episodes=count, length=env.task.length, key=seed + 1)
        return {"fresh_score": float(env.task.score(log).mean())}
    near = rng.uniform(-NARROW, NARROW, (count, 4))
    wide = rng.uniform(-1, 1, (count, 4)) * np.asarray(WIDE)

    def surviving(starts: np.ndarray, length: int) -> float:
        return float((env.episodic.simulate(policy, starts, [length]).discount[0] > 0).mean())

    return {
        "survive_500": surviving(near, 500),
        "survive_2000": surviving(near, 2000),
        "survive_wide": surviving(wide, 500),
    }


def _method(settings: Settings, cell: Cell) -> dict[str, Any]:
    """A method of the paper in our loop: only the solver of the fits differs."""
    size = cell["step_size"]
    solver = gb.LevenbergMarquardt() if size is None else METHODS[cell["method"]](size)
    recipe = Recipe(evaluation=Evaluation(solver, settings.method_steps))
    return _timed(environment(CART), cell["seed"], settings.few_sweeps, recipe)[1]


def _ending(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Rows of n steps from the same states, with either ending and without caution."""
    env = environment(cell["problem"], cell["ending"])
    rows = Fresh(Mixed(Uniform(250), Visited(200), Starts(50)), steps=cell["steps"])
    recipe = gb.iteration.default_recipe(env.task)._replace(rows=rows, evaluation=Evaluation(caution=0.0))
    return _timed(env, cell["seed"], settings.few_sweeps, recipe)[1]


def _q(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Q-factors beside returns by simulation, at uniform and at visited states."""
    env, seed = environment(CART), cell["seed"]
    policy, found = balance, None
    if cell["policy"] == "found":
        found = gb.policy_iteration(env, key=seed, sweeps=settings.sweeps)
        policy = found.policy
    started = time.perf_counter()
    states = gb.rollouts.mixed_states(env, policy, WIDE)
    steps = settings.q_steps
    fit = gb.evaluate_policy(
        env, policy, budget=settings.q_rows * steps, steps=steps, key=seed, q=True, states=states
    )
    told: dict[str, Any] = {"seconds": round(time.perf_counter() - started, 2), "estimate": fit.value_error}
    rng = np.random.default_rng([seed, 2])
    wide = rng.uniform(-1, 1, (20, 4)) * np.asarray(WIDE)
    log = gb.rollouts.play(env, policy, episodes=20, length=500, key=seed + 1, start=wide)
    places = {
        "uniform": np.asarray(env.sample_states(2000, key=seed + 2)),
        "visited": log.state[rng.integers(0, len(log), 2000)],
    }
    for name, state in places.items():
        action = rng.integers(0, 2, len(state))
        truth = gb.rollouts.returns(env, policy, state, action=action)
        pairs = np.concatenate([state, action[:, None]], axis=1)
        told[name] = _agreement(np.asarray(fit.network(pairs)), truth)
        if found is not None:
            told[f"{name} by the iteration's own network"] = _agreement(
                np.asarray(found.network(pairs)), truth
            )
    return told


def _agreement(q: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    varies = q.std() > 0 and truth.std() > 0
    return {
        "correlation": float(np.corrcoef(q, truth)[0, 1]) if varies else np.nan,
        "rmse": float(np.sqrt(np.mean((q - truth) ** 2))),
        "spread": float(truth.std()),
    }


def summarise(record: dict[str, Any]) -> str:
    """The record as tables for people."""
    settings, cells = record["settings"], record["cells"]
    lines = [
        "| problem | solved | sweeps | transitions | training | roll-outs | confirmation | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for problem in (CART, CAR, ACROBOT):
        runs = select(cells, study="solve", problem=problem)
        kinds = [_middle([run["transitions"][kind] for run in runs]) for kind in runs[0]["transitions"]]
        lines.append(
            f"| {problem} | {_solved(runs)} | {_middle([run['sweeps'] for run in runs])} | "
            f"{_middle([run['total'] for run in runs])} | {' | '.join(kinds)} | "
            f"{_middle([run['seconds'] for run in runs])} |"
        )
    carts = select(cells, study="solve", problem=CART)
    wide = _middle([run["survive_wide"] for run in carts], ".3f")
    perfect = sum(run["survive_2000"] == 1 for run in carts)
    lines += [
        "",
        f"Medians (smallest to largest). From {settings['fresh_starts']:,} fresh starts the Cart Pole "
        f"policies survive 500 steps in {np.mean([run['survive_500'] for run in carts]):.2%} on average "
        f"(worst {min(run['survive_500'] for run in carts):.1%}), and {perfect} of {len(carts)} hold 2,000 "
        f"steps from every one; from wide starts {wide} survive.",
        "",
        "| method, in the same loop | " + " | ".join(f"step {s:g}" for s in settings["step_sizes"]) + " |",
        "|---|" + "---|" * len(settings["step_sizes"]),
    ]
    for method in METHODS:
        found = [
            select(cells, study="method", method=method, step_size=size) for size in settings["step_sizes"]
        ]
        entries = [f"{_solved(runs)}, {np.median([run['score'] for run in runs]):.0f}" for runs in found]
        lines.append(f"| {method} | {' | '.join(entries)} |")
    ours = select(cells, study="method", method=OURS)
    best = np.median([run["score"] for run in ours])
    lines += [
        f"| {OURS} | {_solved(ours)}, {best:.0f} |" + " |" * (len(settings["step_sizes"]) - 1),
        "",
        f"Solved, and the median of the best mean steps survived, in {settings['few_sweeps']} sweeps.",
        "",
        "| problem, ending | " + " | ".join(f"{n} steps" for n in settings["steps"]) + " |",
        "|---|" + "---|" * len(settings["steps"]),
    ]
    for problem in (CART, CAR):
        for ending in settings["endings"]:
            found = [
                select(cells, study="ending", problem=problem, ending=ending, steps=n)
                for n in settings["steps"]
            ]
            entries = [f"{_solved(runs)}, {np.median([run['score'] for run in runs]):.0f}" for runs in found]
            lines.append(f"| {problem}, {ending} | {' | '.join(entries)} |")
    lines += [
        "",
        "| Q of the policy | at | correlation | RMSE | spread of the truth |",
        "|---|---|---|---|---|",
    ]
    for policy in ("found", "given"):
        runs = select(cells, study="q", policy=policy)
        for place in [name for name in runs[0] if isinstance(runs[0][name], dict)]:
            columns = [
                _middle([run[place][field] for run in runs if run[place][field] is not None], ".3f")
                for field in ("correlation", "rmse", "spread")
            ]
            lines.append(f"| {policy} | {place} | {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def draw(record: dict[str, Any]) -> figures.Figure:
    """Transitions to a confirmed solution by problem and seed, and how the best score grows by sweep."""
    cells = record["cells"]
    caption = (
        "Left: every simulated step until the solution was confirmed, a dot a seed, filled if solved. Right: "
        "the best mean steps of roll-outs so far, by sweep, for each seed of Cart Pole."
    )
    title = "Policy iteration with default settings, on seeds used for nothing else"
    with figures.panels(2, title=title, caption=caption) as (figure, (left, right)):
        for place, problem in enumerate((CART, CAR, ACROBOT)):
            runs = select(cells, study="solve", problem=problem)
            offsets = np.linspace(-0.25, 0.25, len(runs))
            for run, offset in zip(runs, offsets, strict=True):
                fill = figures.BLUE if run["status"] == "SOLVED" else "white"
                left.semilogy(place + offset, run["total"], "o", color=figures.BLUE, mfc=fill, ms=5)
        left.set_xticks(range(3), [CART, CAR, ACROBOT])
        left.set(title="Cost", ylabel="transitions", xlabel="problem")
        for run in select(cells, study="solve", problem=CART):
            scores = run["best_scores"]
            right.plot(np.arange(1, len(scores) + 1), scores, color=figures.BLUE, alpha=0.5, marker=".")
        right.set(title="Cart Pole", xlabel="sweep", ylabel="best mean steps survived so far")
    return figure


def _solved(runs: list[Cell]) -> str:
    return f"{sum(run['status'] == 'SOLVED' for run in runs)} of {len(runs)}"


def _middle(numbers: list[float], form: str = ",.4g") -> str:
    if not numbers:
        return "not defined"
    return f"{np.median(numbers):{form}} ({min(numbers):{form}} to {max(numbers):{form}})"
