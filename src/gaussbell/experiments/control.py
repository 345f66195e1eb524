"""Policy iteration on control problems: is it solved on every seed, what does it cost, and what matters?

Is each task solved with the default settings on seeds that were used for nothing else? In the same loop, how
far do the four methods of the paper get? What changes if failure or the goal ends the process instead of
restarting it, and if rows span several steps: over ten sweeps, and in a single improvement of a known
policy, and why? And how good are the Q-factors as values, for a policy that was found and for one that was
given? Every cell is a file.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import gaussbell as gb
from gaussbell import records
from gaussbell.control import Fresh, Mixed, Starts, Uniform, Visited
from gaussbell.control.experience import Experience
from gaussbell.control.recipe import Evaluation, Recipe
from gaussbell.experiments.cells import Cell, run_cells
from gaussbell.experiments.control_tables import ACROBOT, CAR, CART, draw, summarise
from gaussbell.experiments.endings import ENDINGS, improve_once, lean
from gaussbell.experiments.methods import METHODS
from gaussbell.numerics.arguments import as_key
from gaussbell.numerics.precision import double_throughout
from gaussbell.processes.policies import AlongVelocity, Constant, EpsilonGreedy, Greedy

NARROW, WIDE = 0.05, (1.0, 0.5, 0.1, 0.5)
"""How far from upright at rest Cart Pole starts, in Gymnasium and in a harder test."""
OURS = "Levenberg-Marquardt"


class Settings(NamedTuple):
    """What is run."""

    cart_seeds: tuple[int, ...] = tuple(range(2100, 2120))
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
    gap_seeds: tuple[int, ...] = tuple(range(1600, 1608))
    q_seeds: tuple[int, ...] = (1400, 1401, 1402)
    q_rows: int = 40_000
    q_steps: int = 200
    q_solver_steps: int = 100


def balance(state: Any) -> Any:
    """A hand-made policy for Cart Pole that never fails from near the start."""
    return (state @ jnp.array([0.02, 0.05, 1.0, 0.3]) > 0).astype(int)


KNOWN = {
    (CART, "poor"): Constant(0),
    (CART, "fair"): lean,
    (CAR, "poor"): Constant(2),
    (CAR, "fair"): AlongVelocity(),
}
"""Policies to improve once: one that fails at once or never arrives, and one that does fairly well."""
STATES = Mixed(Uniform(250), Visited(200), Starts(50))
MATTERS = 1e-3
"""A difference of Q-factors by which one action is truly better than another."""


@double_throughout
def run(settings: Settings, folder: Path, on_progress: Callable[[str], None] | None = None) -> dict[str, Any]:
    """All cells that are not in `folder` yet, and then the whole record."""
    measures = {
        "solve": _solve,
        "method": _method,
        "ending": _ending,
        "improve": _improve,
        "gap": _gap,
        "q": _q,
    }
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
    improve = [
        {"study": "improve", "problem": problem, "policy": policy}
        | {k: cell[k] for k in ("ending", "steps", "seed")}
        for problem, policy in KNOWN
        for cell in ending
        if cell["problem"] == problem
    ]
    gap = [
        {"study": "gap", "ending": ending, "steps": steps, "seed": seed}
        for ending in ENDINGS
        for steps in settings.steps
        for seed in settings.gap_seeds
    ]
    q = [
        {"study": "q", "policy": policy, "seed": seed}
        for policy in ("found", "given")
        for seed in settings.q_seeds
    ]
    return solve + method + ending + improve + gap + q


def environment(problem: str, ending: str | None = None) -> Any:
    """The environment of a problem, by default with the ending that suits it."""
    kinds = {
        CART: gb.environments.CartPole,
        CAR: gb.environments.MountainCar,
        ACROBOT: gb.environments.Acrobot,
    }
    return kinds[problem](ending=ending or ("restart" if problem == CART else "end"))


def _timed(
    env: gb.environments.Simulator, seed: int, sweeps: int, recipe: Recipe | None = None
) -> tuple[Any, dict[str, Any]]:
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


def _hold(settings: Settings, env: gb.environments.Environment, policy: Any, seed: int) -> dict[str, Any]:
    """How the policy does from fresh starts: survival of Cart Pole, mean steps of the others."""
    rng, count = np.random.default_rng([seed, 1]), settings.fresh_starts
    if not isinstance(env, gb.environments.CartPole):
        assert env.task is not None
        log = env.play(policy, episodes=count, length=env.task.length, key=seed + 1)
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
    """Rows of n steps from the same states, with either ending and without epsilon."""
    env = environment(cell["problem"], cell["ending"])
    rows = Fresh(STATES, n_step=cell["steps"])
    recipe = gb.control.default_recipe(env.task)._replace(data=rows, evaluation=Evaluation(epsilon=0.0))
    return _timed(env, cell["seed"], settings.few_sweeps, recipe)[1]


def _improve(settings: Settings, cell: Cell) -> dict[str, Any]:
    """A known policy evaluated once: how good is Q as a value, in its choices, and in what they lead to?"""
    env, policy = environment(cell["problem"], cell["ending"]), KNOWN[cell["problem"], cell["policy"]]
    keys = [as_key(10 * cell["seed"] + k) for k in range(6)]
    seen = Experience(env, keys[0])
    seen.rolled = seen.play(policy, 10, env.task.length, "roll-outs", key=keys[1])
    data = Fresh(STATES, n_step=cell["steps"]).transitions(seen, policy, 0.0, keys[2])
    fit = gb.evaluate(
        gb.control.default_network(env, keys[3]), data, solver=gb.LevenbergMarquardt(), max_steps=150
    )
    state = Mixed(Uniform(500), Visited(500))(seen, keys[4])
    state = state[~np.asarray(jax.vmap(env.episodic.terminal)(state))]
    pairs = [np.column_stack([state, np.full(len(state), action)]) for action in (0, env.actions.count - 1)]
    q = np.stack([np.asarray(fit.network(pair)) for pair in pairs])
    truth = np.stack(
        [gb.monte_carlo.returns(env, policy, state, action=pair[:, -1].astype(int)) for pair in pairs]
    )
    better, truly_better = q[1] - q[0], truth[1] - truth[0]
    matters = np.abs(truly_better) > MATTERS
    log = seen.play(Greedy(fit.network, env.actions.count), 30, env.task.length, "roll-outs", key=keys[5])
    return {
        "before": float(env.task.score(seen.rolled).mean()),
        "after": float(env.task.score(log).mean()),
        "correlation": _agreement(q.ravel(), truth.ravel())["correlation"],
        "matters_where_visited": float(matters[-500:].mean()),
        "right": float((better * truly_better > 0)[matters].mean()),
    }


def _gap(settings: Settings, cell: Cell) -> dict[str, Any]:
    """One improvement of Cart Pole's fair policy, and how well Q tells actions apart where it leads."""
    return improve_once(cell["ending"], cell["steps"], cell["seed"], STATES)


def _q(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Q-factors beside returns by simulation, at uniform and at visited states."""
    env, seed = environment(CART), cell["seed"]
    policy, found = balance, None
    if cell["policy"] == "found":
        found = gb.policy_iteration(env, key=seed, sweeps=settings.sweeps)
        policy = found.policy
    started = time.perf_counter()
    states = gb.monte_carlo.mixed_states(env, policy, WIDE)
    steps = settings.q_steps
    fit = gb.evaluate_policy(
        env,
        policy,
        budget=settings.q_rows * steps,
        n_step=steps,
        key=seed,
        q=True,
        states=states,
        max_transitions=settings.q_rows,
        max_steps=settings.q_solver_steps,
    )
    told: dict[str, Any] = {"seconds": round(time.perf_counter() - started, 2), "estimate": fit.value_error}
    rng = np.random.default_rng([seed, 2])
    wide = rng.uniform(-1, 1, (20, 4)) * np.asarray(WIDE)
    places = {"uniform": np.asarray(env.sample_states(2000, key=seed + 2))}
    for name, played in {"visited": policy, "visited, disturbed": EpsilonGreedy(policy, 2, 0.5)}.items():
        log = env.play(played, episodes=20, length=500, key=seed + 1, start=wide)
        places[name] = log.state[rng.integers(0, len(log), 2000)]
    for name, state in places.items():
        action = rng.integers(0, 2, len(state))
        truth = gb.monte_carlo.returns(env, policy, state, action=action)
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


__all__ = ["Settings", "draw", "list_cells", "run", "summarise"]
