"""Policy iteration on control problems: is it solved on every seed, what does it cost, and how good is Q?

Is each task solved with the default settings? In the same loop, how far do the four methods of the paper
get? And how good are the Q-factors as values, for a policy that was found and for one that was given?
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

import gaussbell as gb
from gaussbell import figures
from gaussbell.control.recipe import Evaluation, Recipe
from gaussbell.experiments.methods import METHODS
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import (
    BEYOND,
    Claim,
    Data,
    Finding,
    Study,
    all_of,
    select,
    settings,
)
from gaussbell.numerics.precision import double_throughout
from gaussbell.processes.policies import EpsilonGreedy
from gaussbell.records.cells import Cell, xarray

CART, CAR, ACROBOT = "cart-pole", "mountain-car", "acrobot"
SOLVE, METHOD, Q = "solve", "method", "q"
"""The three questions."""
NARROW, WIDE = 0.05, (1.0, 0.5, 0.1, 0.5)
"""How far from upright at rest Cart Pole starts, in Gymnasium and in a harder test."""
OURS = "Levenberg-Marquardt"
FOUND, GIVEN = "found", "given"
PURPOSES = ("training", "roll-outs", "confirmation")
PLACES = ("uniform", "visited", "visited, disturbed")
"""Where Q is compared with returns; disturbed, half of the actions are random."""
METHOD_SWEEPS, METHOD_STEPS = 10, 500
Q_N_STEP, Q_MAX_STEPS, Q_TESTED = 200, 100, 2000

TITLE = "Policy iteration on control problems: is it solved, what does it cost, how good is Q?"
CLAIMS = (
    Claim("solved", BEYOND, "With the default settings every run solves its task."),
    Claim(
        "cost", BEYOND, "Cart Pole takes fewer than 10,000 simulated steps in the median, with confirmation."
    ),
    Claim("lasts", BEYOND, "Every policy found for Cart Pole holds 2,000 steps from 1,000 fresh starts."),
    Claim(
        "no-step-size",
        BEYOND,
        "Without a step size Levenberg-Marquardt does as well as the best that has one.",
    ),
    Claim("q", BEYOND, "Evaluated once more, Q correlates with returns by 0.97 over the box, in the median."),
)


def balance(state: Any) -> Any:
    """A hand-made policy for Cart Pole that never fails from near the start."""
    return (state @ jnp.array([0.02, 0.05, 1.0, 0.3]) > 0).astype(int)


def cells(scale: Scale) -> list[Cell]:
    """Every run."""
    seeds, sweeps, starts, step_sizes, repetitions, samples = {
        Scale.SMOKE: ({CART: (2100,), CAR: (1100,), ACROBOT: (1100,)}, 2, 50, (1.0,), 1, 500),
    }.get(
        scale,
        (
            {CART: range(2100, 2120), CAR: range(1100, 1110), ACROBOT: range(1100, 1110)},
            40,
            1000,
            (1.0, 0.1, 0.01, 0.001),
            3,
            40_000,
        ),
    )
    solve = [
        {"question": SOLVE, "problem": problem, "sweeps": sweeps, "starts": starts, "seed": seed}
        for problem in seeds
        for seed in seeds[problem]
    ]
    settings_of = [(method, {"step_size": size}) for method in METHODS for size in step_sizes] + [(OURS, {})]
    few = min(sweeps, METHOD_SWEEPS)
    method = [
        {"question": METHOD, "problem": CART, "method": method, **size, "sweeps": few, "seed": 1200 + k}
        for method, size in settings_of
        for k in range(repetitions)
    ]
    q = [
        {
            "question": Q,
            "problem": CART,
            "policy": policy,
            "samples": samples,
            "sweeps": sweeps,
            "seed": 1400 + k,
        }
        for policy in (FOUND, GIVEN)
        for k in range(repetitions)
    ]
    return solve + method + q


@double_throughout
def measure(cell: Cell) -> Data:
    """Run policy iteration, or evaluate Q."""
    return {SOLVE: _solve, METHOD: _try_method, Q: _evaluate_q}[cell["question"]](cell)


def environment(problem: str, ending: str | None = None) -> Any:
    """The environment of a problem, by default with the ending that suits it."""
    kinds = {
        CART: gb.environments.CartPole,
        CAR: gb.environments.MountainCar,
        ACROBOT: gb.environments.Acrobot,
    }
    return kinds[problem](ending=ending or ("restart" if problem == CART else "end"))


def iterate(
    env: gb.environments.Simulator, cell: Cell, recipe: Recipe | None = None
) -> tuple[Any, dict[str, Any]]:
    """Policy iteration, and what it came to: the variables of a cell."""
    started = time.perf_counter()
    found = gb.policy_iteration(env, key=cell["seed"], sweeps=cell["sweeps"], recipe=recipe)
    best = np.full(cell["sweeps"], np.nan)
    best[: found.sweeps] = np.maximum.accumulate(found.column("score"))
    return found, {
        "solved": int(found.succeeded),
        "used": found.sweeps,
        "score": float(found.score),
        "best_score": ("sweep", best),
        "transitions": ("purpose", [found.transitions[purpose] for purpose in PURPOSES]),
        "elapsed": time.perf_counter() - started,
    }


def _solve(cell: Cell) -> Data:
    env = environment(cell["problem"])
    found, told = iterate(env, cell)
    return _data(cell, told | _fresh_episodes(env, found.policy, cell))


def _fresh_episodes(env: gb.environments.Environment, policy: Any, cell: Cell) -> dict[str, float]:
    """How the policy does from fresh starts: survival of Cart Pole, mean steps of the others."""
    seed, count = cell["seed"], cell["starts"]
    if cell["problem"] != CART:
        task: Any = env.task
        log = env.play(policy, episodes=count, length=task.length, key=seed + 1)
        return {"fresh_score": float(task.score(log).mean())}
    rng = np.random.default_rng([seed, 1])
    near = rng.uniform(-NARROW, NARROW, (count, 4))
    wide = rng.uniform(-1, 1, (count, 4)) * np.asarray(WIDE)

    def surviving(starts: np.ndarray, length: int) -> float:
        return float((env.episodic.simulate(policy, starts, [length]).discount[0] > 0).mean())

    return {
        "survive_500": surviving(near, 500),
        "survive_2000": surviving(near, 2000),
        "survive_wide": surviving(wide, 500),
    }


def _try_method(cell: Cell) -> Data:
    """A method of the paper in our loop: only the solver of the fits differs."""
    solver = METHODS[cell["method"]](cell["step_size"]) if "step_size" in cell else gb.LevenbergMarquardt()
    recipe = Recipe(evaluation=Evaluation(solver, METHOD_STEPS))
    return _data(cell, iterate(environment(CART), cell, recipe)[1])


def _data(cell: Cell, told: dict[str, Any]) -> Data:
    return xarray.Dataset(told, coords={"sweep": np.arange(1, cell["sweeps"] + 1)})


def _evaluate_q(cell: Cell) -> Data:
    """Q-factors beside returns by simulation, at uniform and at visited states."""
    env, seed = environment(CART), cell["seed"]
    policy, found = balance, None
    if cell["policy"] == FOUND:
        found = gb.policy_iteration(env, key=seed, sweeps=cell["sweeps"])
        policy = found.policy
    fit = gb.evaluate_policy(
        env,
        policy,
        budget=gb.evaluation.budget_for(cell["samples"] * Q_N_STEP),
        n_step=Q_N_STEP,
        key=seed,
        q=True,
        states=gb.monte_carlo.mixed_states(env, policy, WIDE),
        max_transitions=cell["samples"],
        max_steps=Q_MAX_STEPS,
    )
    rng = np.random.default_rng([seed, 2])
    wide = rng.uniform(-1, 1, (20, 4)) * np.asarray(WIDE)
    states = [np.asarray(env.sample_states(Q_TESTED, key=seed + 2))]
    for played in (policy, EpsilonGreedy(policy, 2, 0.5)):
        log = env.play(played, episodes=20, length=500, key=seed + 1, start=wide)
        states.append(log.state[rng.integers(0, len(log), Q_TESTED)])
    networks = {"": fit.network} | ({} if found is None else {"own_": found.network})
    columns: dict[str, list[float]] = {}
    for state in states:
        action = rng.integers(0, 2, len(state))
        truth = gb.monte_carlo.returns(env, policy, state, action=action)
        pairs = np.concatenate([state, action[:, None]], axis=1)
        for prefix, network in networks.items():
            for name, number in agreement(np.asarray(network(pairs)), truth).items():
                columns.setdefault(prefix + name, []).append(number)
    return xarray.Dataset({name: ("place", column) for name, column in columns.items()})


def agreement(q: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """How well Q agrees with returns; the correlation is not defined where either is constant."""
    varies = q.std() > 0 and truth.std() > 0
    return {
        "correlation": float(np.corrcoef(q, truth)[0, 1]) if varies else np.nan,
        "rmse": float(np.sqrt(np.mean((q - truth) ** 2))),
        "spread": float(truth.std()),
    }


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to."""
    solve, carts = select(data, question=SOLVE), select(data, question=SOLVE, problem=CART)
    totals, perfect = totals_of(carts), carts.survive_2000.values == 1
    tried = {
        (method, size): int(select(data, question=METHOD, method=method, step_size=size).solved.sum())
        for method in METHODS
        for size in step_sizes(data)
    }
    ours, best = select(data, question=METHOD, method=OURS), max(tried, key=lambda pair: tried[pair])
    others = [tried[best[0], size] for size in step_sizes(data) if size != best[1]] or [0]
    q = [select(data, question=Q, policy=policy).correlation.values[:, 0] for policy in (FOUND, GIVEN)]
    return {
        "solved": Finding(
            "; ".join(f"{name}: {solved_of(select(solve, problem=name))}" for name in (CART, CAR, ACROBOT)),
            all_of(*solve.solved.values),
        ),
        "cost": Finding(
            f"median {np.median(totals):,.0f} ({totals.min():,.0f} to {totals.max():,.0f})",
            all_of(np.median(totals) < 10_000),
        ),
        "lasts": Finding(f"{perfect.sum()} of {len(perfect)} policies", all_of(*perfect)),
        "no-step-size": Finding(
            f"solved {solved_of(ours)}; {best[0]} with step size {best[1]:g} {tried[best]}, and between "
            f"{min(others)} and {max(others)} with others",
            all_of(int(ours.solved.sum()) >= tried[best]),
        ),
        "q": Finding(
            ", ".join(
                f"{name} {np.median(some):.3f}"
                for name, some in zip(("policy that was found", "given"), q, strict=True)
            ),
            all_of(*(np.median(some) >= 0.97 for some in q)),
        ),
    }


def tabulate(data: Data) -> str:
    """What a solution costs, how the paper's methods do, and how good Q is."""
    solve = select(data, question=SOLVE)
    lines = [
        f"| problem | solved | sweeps | transitions | {' | '.join(PURPOSES)} | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for problem in (CART, CAR, ACROBOT):
        runs = select(solve, problem=problem)
        columns = [runs.used.values, totals_of(runs), *runs.transitions.values.T, runs.elapsed.values]
        lines.append(f"| {problem} | {solved_of(runs)} | {' | '.join(map(middle, columns))} |")
    carts = select(solve, problem=CART)
    lines += [
        "",
        "Medians (smallest to largest); seconds on one core, with compilation where a process had not done "
        f"it yet. From {int(carts.starts[0]):,} fresh starts the Cart Pole policies survive 500 steps in "
        f"{carts.survive_500.values.mean():.2%} on average (worst {carts.survive_500.values.min():.1%}), "
        f"and {(carts.survive_2000.values == 1).sum()} of {carts.sizes['cell']} hold 2,000 steps from every "
        f"one; from wide starts {middle(carts.survive_wide.values, '.3f')} survive.",
        "",
        "| method, in the same loop | "
        + " | ".join(f"step size {size:g}" for size in step_sizes(data))
        + " |",
        "|---|" + "---|" * len(step_sizes(data)),
    ]
    for name in METHODS:
        runs = [select(data, question=METHOD, method=name, step_size=size) for size in step_sizes(data)]
        lines.append(f"| {name} | {' | '.join(map(solved_and_score, runs))} |")
    ours = select(data, question=METHOD, method=OURS)
    lines += [
        f"| {OURS}, which has none | {solved_and_score(ours)} |" + " |" * (len(step_sizes(data)) - 1),
        "",
        f"Solved, and the median of the best mean steps survived, in {int(ours.sweeps[0])} sweeps.",
        "",
        "| Q of the policy | by | at | correlation | RMSE | spread of the returns |",
        "|---|---|---|---|---|---|",
    ]
    for policy in (FOUND, GIVEN):
        runs = select(data, question=Q, policy=policy)
        kinds = {"": "evaluation", "own_": "policy iteration"} if policy == FOUND else {"": "evaluation"}
        for prefix, kind in kinds.items():
            for number, place in enumerate(PLACES):
                fields = [runs[prefix + name].values[:, number] for name in ("correlation", "rmse", "spread")]
                entries = " | ".join(middle(field, ".3f") for field in fields)
                lines.append(f"| {policy} | {kind} | {place} | {entries} |")
    return "\n".join([*lines, ""])


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """Transitions to a confirmed solution by problem and seed, and how the best score grows by sweep."""
    caption = (
        "Left: every simulated step until the solution was confirmed, a dot a seed, filled if solved. Right: "
        "the best mean steps of roll-outs so far, by sweep, for each seed of Cart Pole."
    )
    title = "Policy iteration with default settings"
    with figures.panels(2, title=title, caption=caption) as (figure, (left, right)):
        for place, problem in enumerate((CART, CAR, ACROBOT)):
            runs = select(data, question=SOLVE, problem=problem)
            offsets = np.linspace(-0.25, 0.25, runs.sizes["cell"])
            for total, solved, offset in zip(totals_of(runs), runs.solved.values, offsets, strict=True):
                fill = figures.BLUE if solved else "white"
                left.semilogy(place + offset, total, "o", color=figures.BLUE, mfc=fill, ms=5)
        left.set_xticks(range(3), [CART, CAR, ACROBOT])
        counts = [6000, 10_000, 20_000, 40_000]
        left.set_yticks(counts, [f"{count:,}" for count in counts])
        left.minorticks_off()
        left.set(title="Cost", ylabel="transitions", xlabel="problem")
        for scores in select(data, question=SOLVE, problem=CART).best_score.values:
            right.plot(np.arange(1, len(scores) + 1), scores, color=figures.BLUE, alpha=0.5, marker=".")
        right.set(title="Cart Pole", xlabel="sweep", ylabel="best mean steps survived so far")
    return {"control": figure}


def step_sizes(data: Data) -> list[float]:
    """The step sizes of the paper's methods, from the largest."""
    return settings(data, "step_size", question=METHOD)[::-1]


def totals_of(runs: Data) -> np.ndarray:
    """All simulated steps of each run."""
    return runs.transitions.values.sum(axis=-1)


def solved_of(runs: Data) -> str:
    """How many are solved, in words."""
    return f"{int(runs.solved.sum())} of {runs.sizes['cell']}"


def solved_and_score(runs: Data) -> str:
    """How many are solved, and the median of the best scores."""
    return f"{solved_of(runs)}, {np.median(runs.score):.0f}"


def middle(numbers: Sequence[float] | np.ndarray, form: str = "") -> str:
    """Median, smallest and largest of those that are defined: four digits or so unless a form is given."""
    known = np.asarray(numbers)[~np.isnan(numbers)]
    if not len(known):
        return "not defined"
    texts = [
        f"{n:{form or (',.0f' if n >= 1000 else '.4g')}}"
        for n in (np.median(known), known.min(), known.max())
    ]
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


def _group(cell: Cell) -> Any:
    return [cell["question"], cell["problem"], cell.get("method"), cell.get("policy")]


def _cost(cell: Cell) -> float:
    if cell["question"] == Q:
        return 0.0025 * cell["samples"]
    second_order = "Newton" in cell.get("method", "")
    return cell["sweeps"] * (8.0 if second_order else 0.6)


STUDY = Study("control", TITLE, CLAIMS, cells, measure, _group, _cost, check, tabulate, draw)
