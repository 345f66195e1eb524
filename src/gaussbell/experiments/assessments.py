"""Does the assessment of a fit, and that of a state, predict the true error?

Fits from good to worthless, by few samples or many, by short paths or long, on Mountain Car, on Cart Pole and
on slippery FrozenLake. Each is judged twice, with the simulator and from its data alone, and both assessments
are compared with the true value.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import rankdata, spearmanr

import gaussbell as gb
from gaussbell import figures
from gaussbell.diagnostics.assessment import TOLERABLE
from gaussbell.experiments.control import balance
from gaussbell.experiments.scale import Scale
from gaussbell.experiments.study import BEYOND, Claim, Data, Finding, Study, all_of, by_share, select
from gaussbell.numerics.precision import double_throughout
from gaussbell.records.cells import Cell, xarray

CAR, FEATURES, CART, LAKE = "mountain-car", "mountain-car-features", "cart-pole", "frozen-lake"
CARS = (CAR, FEATURES)
"""With the paper's inputs, and behind the environment's features, where more fits are good."""
SIMULATOR, DATA = "simulator", "data"
REFERENCES = {SIMULATOR: "with a simulator", DATA: "from the data alone"}
NAMES = {
    CAR: "Mountain Car",
    FEATURES: "Mountain Car, features",
    CART: "Cart Pole",
    LAKE: "slippery FrozenLake",
}
INPUTS = {CAR: "the paper's inputs", FEATURES: "features"}
GOALS = {SIMULATOR: (0.85, 0.97), DATA: (0.6, 0.93)}
"""Rank correlation of scores with errors, and area under the curve of the assessment."""
TESTED, SCORED = 2000, 500
"""States at which the true error is known, and those of them that get a score."""
FLOOR, NEAR_FLOOR = -100.0, 0.2
"""A fit whose median is so near to -1 / (1 - discount) is the plateau of a car that never arrives."""
FIRST_SEED = 7000

TITLE = "Does the assessment of a value predict its error?"
CLAIMS = (
    Claim("states-simulator", BEYOND, "With a simulator the score ranks states by their error (0.85)."),
    Claim("states-data", BEYOND, "From the data alone the score ranks states by their error (0.6)."),
    Claim("fits-simulator", BEYOND, "With a simulator the assessment tells good fits from bad (AUROC 0.97)."),
    Claim("fits-data", BEYOND, "From the data alone the assessment tells good fits from bad (AUROC 0.93)."),
    Claim("plateau", BEYOND, "The plateau at -100 is flagged, with and without a simulator."),
    Claim("no-chain", BEYOND, "A fit none of whose chains reaches a reward is flagged."),
    Claim("calibrated", BEYOND, "The estimated error is within a factor of two of the true one."),
)


class Problem(NamedTuple):
    """A policy to evaluate: with its environment, and the states and true values to test at."""

    env: Any
    policy: Any
    state: np.ndarray
    value: np.ndarray

    features: Any = None

    def network(self, key: Any) -> Any:
        """A network with fresh weights."""
        if self.features is None:
            return gb.MLP((self.env.width, 10, 10, 1), key=key)
        width = gb.features.width(self.features, self.env.width)
        return gb.FeatureNetwork(self.features, gb.MLP((width, 10, 10, 1), key=key))


def cells(scale: Scale) -> list[Cell]:
    """Every fit."""
    car_counts, car_seeds, other_seeds, solver_steps = {
        Scale.SMOKE: ((25, 100), 3, 2, 20),
        Scale.QUICK: ((25, 50, 100, 500, 2000), 10, 5, 200),
        Scale.PAPER: ((25, 50, 100, 500, 2000), 25, 25, 500),
    }[scale]
    grids = {
        CAR: (car_counts, (1, 50), (1,), car_seeds),
        FEATURES: (car_counts, (1, 50), (1,), car_seeds),
        CART: (tuple(min(n, car_counts[-1]) for n in (100, 500, 2000)), (1, 200), (1,), other_seeds),
        LAKE: (tuple(min(n, car_counts[-1]) for n in (50, 200, 1000)), (1, 20), (1, 64), other_seeds),
    }
    return [
        {
            "problem": problem,
            "samples": samples,
            "n_step": n_step,
            "successors": successors,
            "solver_steps": solver_steps,
            "seed": FIRST_SEED + seed,
        }
        for problem, (counts, lengths, several, seeds) in grids.items()
        for samples in dict.fromkeys(counts)
        for n_step in lengths
        for successors in several
        for seed in range(seeds)
    ]


@double_throughout
def measure(cell: Cell) -> Data:
    """Fit, ask both references, and compare with the truth."""
    problem = _problem(cell["problem"])
    env, policy = problem.env, problem.policy
    data_key, weights_key, ask_key = jax.random.split(jax.random.key(cell["seed"]), 3)
    data = gb.sample_transitions(
        env, policy, cell["samples"], key=data_key, n_step=cell["n_step"], successors=cell["successors"]
    )
    fit = gb.evaluate(problem.network(weights_key), data, max_steps=cell["solver_steps"])
    values, checks = np.asarray(fit.network(problem.state)), fit.assessment.checks
    errors = np.abs(values - problem.value)
    found: dict[str, Any] = {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "spread": float(problem.value.std()),
        "msbe": float(fit.msbe),
        "median": float(np.median(values)),
        "reward_coverage": checks.reward_coverage,
        "reward_grounded": checks.reward_grounded,
        "error": ("state", errors[:SCORED]),
    }
    for reference in REFERENCES:
        simulator = {"env": env, "policy": policy} if reference == SIMULATOR else {}
        assessed: Any = gb.assess(fit, data, key=ask_key, **simulator)
        score = assessed.per_state(problem.state[:SCORED])
        found |= {
            f"{reference}_score": ("state", score),
            f"{reference}_estimate": assessed.value_error,
            f"{reference}_low": assessed.interval[0],
            f"{reference}_high": assessed.interval[1],
            f"{reference}_relative": min(assessed.relative_error, 1e6),
            f"{reference}_trusted": int(assessed.trusted),
            f"{reference}_rank_correlation": _rank_correlation(score, errors[:SCORED]),
        }
    return xarray.Dataset(found, coords={"state": np.arange(SCORED)})


@functools.cache
def _problem(name: str) -> Problem:
    if name == LAKE:
        lake: Any = gb.environments.from_gymnasium("FrozenLake-v1", is_slippery=True)
        chosen = lake.optimal().policy
        state = np.resize(np.arange(lake.num_states, dtype=float), TESTED)[:, None]
        truth = lake.under(chosen).values[state[:, 0].astype(int)]
        table = jnp.asarray(chosen)
        env: Any = gb.environments.FiniteEnvironment(lake)
        return Problem(env, lambda s: table[s[0].astype(int)], state, truth, env.features())
    env = gb.environments.CartPole() if name == CART else gb.environments.MountainCar()
    policy: Any = balance if name == CART else env.along_velocity
    state = np.asarray(env.sample_states(TESTED, key=FIRST_SEED - 1))
    truth = gb.monte_carlo.returns(env, policy, state)
    return Problem(env, policy, state, truth, None if name == CAR else env.features(policy))


def check(data: Data) -> Mapping[str, Finding]:
    """What each claim comes to."""
    cars = {problem: select(data, problem=problem) for problem in CARS}
    found = {}
    for reference, (least_rank, least_area) in GOALS.items():
        each = {name: car[f"{reference}_rank_correlation"].values for name, car in cars.items()}
        pooled = {name: _pooled(car, reference) for name, car in cars.items()}
        found[f"states-{reference}"] = Finding(
            "; ".join(
                f"{INPUTS[name]}: median over fits {np.nanmedian(each[name]):.2f} "
                f"({np.nanmin(each[name]):.2f} to {np.nanmax(each[name]):.2f}), over all states of all fits "
                f"{pooled[name]:.2f}"
                for name in cars
            ),
            all_of(*(np.nanmedian(each[name]) >= least_rank and pooled[name] >= least_rank for name in cars)),
        )
        areas = {
            name: area_under_curve(car[f"{reference}_relative"].values, _is_bad(car))
            for name, car in cars.items()
        }
        found[f"fits-{reference}"] = Finding(
            "; ".join(
                f"{INPUTS[name]}: AUROC {areas[name]:.3f} over {car.sizes['cell']} fits, "
                f"{int(_is_bad(car).sum())} of them bad, assessments right {_right(car, reference):.0%}"
                for name, car in cars.items()
            ),
            all_of(*(area >= least_area for area in areas.values())),
        )
    car = data.isel(cell=np.flatnonzero(np.isin(data.problem.values, CARS)))
    flat = np.abs(car["median"].values - FLOOR) < NEAR_FLOOR
    flat &= (car.samples.values == 25) & (car.n_step.values == 1)
    alone = car.reward_coverage.values == 0
    found["plateau"] = _flagged(car, flat)
    found["no-chain"] = _flagged(car, alone)
    ratios = {w: data[f"{w}_estimate"].values / data.rmse.values for w in REFERENCES}
    near = {w: float(np.mean((r > 0.5) & (r < 2))) for w, r in ratios.items()}
    found["calibrated"] = Finding(
        "; ".join(f"{REFERENCES[w]} {near[w]:.0%} of all fits" for w in REFERENCES),
        by_share(min(near.values())),
    )
    return found


def _flagged(car: Data, which: np.ndarray) -> Finding:
    trusted = {w: int(car[f"{w}_trusted"].values[which].sum()) for w in REFERENCES}
    told = ", ".join(f"{which.sum() - n} {REFERENCES[w]}" for w, n in trusted.items())
    return Finding(
        f"of {which.sum()} fits flagged: {told}", all_of(which.any(), *(n == 0 for n in trusted.values()))
    )


def _is_bad(data: Data) -> np.ndarray:
    return data.rmse.values > TOLERABLE * data.spread.values


def _right(data: Data, reference: str) -> float:
    return float(np.mean((data[f"{reference}_trusted"].values == 1) != _is_bad(data)))


def _pooled(data: Data, reference: str) -> float:
    return _rank_correlation(data[f"{reference}_score"].values.ravel(), data.error.values.ravel())


def _rank_correlation(scores: np.ndarray, errors: np.ndarray) -> float:
    found: Any = spearmanr(scores, errors)
    return float(found.statistic)


def area_under_curve(scores: np.ndarray, positive: np.ndarray) -> float:
    """The chance that a positive case scores above a negative one; NaN without both."""
    ranks, count, others = rankdata(scores), int(positive.sum()), int((~positive).sum())
    if count == 0 or others == 0:
        return float("nan")
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * others))


def tabulate(data: Data) -> str:
    """The figures of each problem and reference as a Markdown table."""
    lines = [
        "| problem | reference | fits (bad ones) | rank correlation, median | over all states | AUROC | "
        "assessments right | estimated / true error (5 % to 95 %) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for problem, name in NAMES.items():
        found = select(data, problem=problem)
        for reference, words in REFERENCES.items():
            ratio = found[f"{reference}_estimate"].values / found.rmse.values
            low, middle, high = np.quantile(ratio, [0.05, 0.5, 0.95])
            each = float(np.nanmedian(found[f"{reference}_rank_correlation"]))
            area = area_under_curve(found[f"{reference}_relative"].values, _is_bad(found))
            lines.append(
                f"| {name} | {words} | {found.sizes['cell']} ({int(_is_bad(found).sum())}) | {each:.2f} | "
                f"{_pooled(found, reference):.2f} | {area:.3f} | {_right(found, reference):.0%} | "
                f"{middle:.2f} ({low:.2f} to {high:.2f}) |"
            )
    note = (
        f"Bad: the value's RMSE is more than {TOLERABLE:g} of its standard deviation. Rank correlation: "
        "Spearman's, of the score with the true absolute error."
    )
    return "\n".join([*lines, "", note, ""])


def draw(data: Data) -> Mapping[str, figures.Figure]:
    """Estimated against true errors of fits, and scores against errors of states."""
    caption = (
        "Every point is a fit: its true error against the error that was estimated, both in standard "
        "deviations of the true value; on the dashed line they agree. Fits in the lower left corner, "
        f"within {TOLERABLE:g}, are good and trusted; in the upper left a bad fit would be trusted."
    )
    marks = (
        (figures.BLUE, "o"),
        (figures.PURPLE, "v"),
        (figures.ORANGE, "s"),
        (figures.GREEN, "D"),
    )
    title = "How far off is the value? What a simulator and the data alone say"
    with figures.panels(2, size=(4.6, 4.4), title=title, caption=caption) as (figure, axes):
        for panel, (reference, words) in zip(axes, REFERENCES.items(), strict=True):
            for (problem, name), (colour, marker) in zip(NAMES.items(), marks, strict=True):
                found = select(data, problem=problem)
                panel.loglog(
                    found[f"{reference}_estimate"].values / found.spread.values,
                    found.rmse.values / found.spread.values,
                    marker,
                    color=colour,
                    ms=4.5,
                    alpha=0.6,
                    label=name,
                )
            limits = np.array([0.02, 40.0])
            panel.loglog(limits, limits, "--", color=figures.GREY, lw=1)
            panel.axhline(TOLERABLE, color=figures.GREY, lw=0.8)
            panel.axvline(TOLERABLE, color=figures.GREY, lw=0.8)
            panel.set(title=words.capitalize(), xlabel="estimated error / sd", ylabel="true error / sd")
            panel.set(xlim=limits, ylim=limits)
        axes[0].legend()
    return {"assessments": figure}


def _group(cell: Cell) -> Any:
    return [cell["problem"], cell["samples"], cell["n_step"], cell["successors"]]


def _cost(cell: Cell) -> float:
    return 4.0 + 2e-5 * cell["samples"] * cell["solver_steps"]


STUDY = Study("assessments", TITLE, CLAIMS, cells, measure, _group, _cost, check, tabulate, draw)
