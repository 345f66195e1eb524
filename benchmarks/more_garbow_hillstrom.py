"""How many of the Moré-Garbow-Hillstrom problems each solver solves, from the standard start and 10 times it.

The problems are the 35 of Moré, Garbow and Hillstrom, "Testing Unconstrained Optimization Software", ACM
Transactions on Mathematical Software 7(1), 1981, in its numbering; a name ends in n where n is free. Each is
a residual r to be made small in least squares, and its minima are values of f(x) = r(x) . r(x), without the
half: the global one, then local ones, some of them limits at infinity. Of these the paper's come first, then
those that Kappel and Kuntsevich found (SolvOpt, Computational Optimization and Applications 15, 2000), a few
of them plateaux rather than minima, then some of our own; there are others. Published digits are carried on
to eight by our own solves. Gulf's residual has the minus sign that a misprint in the paper lost; 10 times its
start happens to be its solution.

A run has solved its problem if it ends at f <= fmin (1 + 1e-5), or, where fmin = 0, at f <= 1e-12 min(1,
f(x0)) with x0 the standard start. It has found a local minimum if it ends within 0.1% of a listed one. All
methods work in double precision with JAX's derivatives, for at most 1000 steps (SciPy: evaluations of the
residual), and with their defaults but for tolerances near rounding.
"""

import argparse
import math
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax import Array
from rich.console import Console
from rich.table import Table

import gaussbell as gb
from gaussbell import records

MAX_STEPS = 1000
STARTS = {"x0": 1, "10 x0": 10}
Residual = Callable[[Array], Array]
Method = Callable[[Residual, np.ndarray], np.ndarray]


class Problem(NamedTuple):
    name: str
    residual: Residual
    start: tuple[float, ...]
    minima: tuple[float, ...]


def count(n: int) -> np.ndarray:
    """1, ..., n, the index of the paper's formulae."""
    return np.arange(1.0, n + 1)


def rosenbrock(x: Array) -> Array:
    return jnp.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def freudenstein_roth(x: Array) -> Array:
    a, b = x
    return jnp.stack([-13 + a + ((5 - b) * b - 2) * b, -29 + a + ((b + 1) * b - 14) * b])


def powell_badly_scaled(x: Array) -> Array:
    return jnp.stack([1e4 * x[0] * x[1] - 1, jnp.exp(-x[0]) + jnp.exp(-x[1]) - 1.0001])


def brown_badly_scaled(x: Array) -> Array:
    return jnp.stack([x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2])


def beale(x: Array) -> Array:
    return jnp.stack([y - x[0] * (1 - x[1] ** i) for i, y in ((1, 1.5), (2, 2.25), (3, 2.625))])


def jennrich_sampson(x: Array) -> Array:
    i = count(10)
    return 2 + 2 * i - (jnp.exp(i * x[0]) + jnp.exp(i * x[1]))


def helical_valley(x: Array) -> Array:
    turn = 0.25 + jnp.arctan2(-x[0], x[1]) / (
        2 * math.pi
    )  # in (-1/4, 3/4], and cut along x2 < 0, as in the paper
    return jnp.stack([10 * (x[2] - 10 * turn), 10 * (jnp.hypot(x[0], x[1]) - 1), x[2]])


BARD_Y = (0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39)


def bard(x: Array) -> Array:
    u = count(15)
    v = 16 - u
    return np.array(BARD_Y) - (x[0] + u / (v * x[1] + np.minimum(u, v) * x[2]))


GAUSSIAN_Y = (0.0009, 0.0044, 0.0175, 0.0540, 0.1295, 0.2420, 0.3521, 0.3989)


def gaussian(x: Array) -> Array:
    t = (8 - count(15)) / 2
    return x[0] * jnp.exp(-x[1] * (t - x[2]) ** 2 / 2) - np.array(GAUSSIAN_Y + GAUSSIAN_Y[-2::-1])


MEYER_Y = (
    34780,
    28610,
    23650,
    19630,
    16370,
    13720,
    11540,
    9744,
    8261,
    7030,
    6005,
    5147,
    4427,
    3820,
    3307,
    2872,
)


def meyer(x: Array) -> Array:
    t = 45 + 5 * count(16)
    return x[0] * jnp.exp(x[1] / (t + x[2])) - np.array(MEYER_Y)


def gulf(x: Array) -> Array:
    t = count(99) / 100
    y = 25 + (-50 * np.log(t)) ** (2 / 3)
    return jnp.exp(-(jnp.abs(y - x[1]) ** x[2]) / x[0]) - t


def box(x: Array) -> Array:
    t = count(10) / 10
    return jnp.exp(-t * x[0]) - jnp.exp(-t * x[1]) - x[2] * (np.exp(-t) - np.exp(-10 * t))


def powell_singular(x: Array) -> Array:
    """Four variables, or any multiple of four: the extended function."""
    a, b, c, d = x.reshape(-1, 4).T
    parts = (a + 10 * b, 5**0.5 * (c - d), (b - 2 * c) ** 2, 10**0.5 * (a - d) ** 2)
    return jnp.stack(parts, axis=1).ravel()


def wood(x: Array) -> Array:
    a, b, c, d = x
    first = [10 * (b - a**2), 1 - a, 90**0.5 * (d - c**2), 1 - c]
    return jnp.stack([*first, 10**0.5 * (b + d - 2), (b - d) / 10**0.5])


KOWALIK_OSBORNE_U = (4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625)
KOWALIK_OSBORNE_Y = (
    *(0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627),
    *(0.0456, 0.0342, 0.0323, 0.0235, 0.0246),
)


def kowalik_osborne(x: Array) -> Array:
    u = np.array(KOWALIK_OSBORNE_U)
    return np.array(KOWALIK_OSBORNE_Y) - x[0] * (u**2 + u * x[1]) / (u**2 + u * x[2] + x[3])


def brown_dennis(x: Array) -> Array:
    t = count(20) / 5
    return (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + x[3] * np.sin(t) - np.cos(t)) ** 2


OSBORNE_1_Y = (
    *(0.844, 0.908, 0.932, 0.936, 0.925, 0.908, 0.881, 0.850, 0.818, 0.784, 0.751),
    *(0.718, 0.685, 0.658, 0.628, 0.603, 0.580, 0.558, 0.538, 0.522, 0.506, 0.490),
    *(0.478, 0.467, 0.457, 0.448, 0.438, 0.431, 0.424, 0.420, 0.414, 0.411, 0.406),
)


def osborne_1(x: Array) -> Array:
    t = 10 * (count(33) - 1)
    return np.array(OSBORNE_1_Y) - (x[0] + x[1] * jnp.exp(-t * x[3]) + x[2] * jnp.exp(-t * x[4]))


def biggs_exp6(x: Array) -> Array:
    t = count(13) / 10
    y = np.exp(-t) - 5 * np.exp(-10 * t) + 3 * np.exp(-4 * t)
    return x[2] * jnp.exp(-t * x[0]) - x[3] * jnp.exp(-t * x[1]) + x[5] * jnp.exp(-t * x[4]) - y


OSBORNE_2_Y = (
    *(1.366, 1.191, 1.112, 1.013, 0.991, 0.885, 0.831, 0.847, 0.786, 0.725, 0.746, 0.679, 0.608),
    *(0.655, 0.616, 0.606, 0.602, 0.626, 0.651, 0.724, 0.649, 0.649, 0.694, 0.644, 0.624, 0.661),
    *(0.612, 0.558, 0.533, 0.495, 0.500, 0.423, 0.395, 0.375, 0.372, 0.391, 0.396, 0.405, 0.428),
    *(0.429, 0.523, 0.562, 0.607, 0.653, 0.672, 0.708, 0.633, 0.668, 0.645, 0.632, 0.591, 0.559),
    *(0.597, 0.625, 0.739, 0.710, 0.729, 0.720, 0.636, 0.581, 0.428, 0.292, 0.162, 0.098, 0.054),
)


def osborne_2(x: Array) -> Array:
    t = (count(65) - 1) / 10
    decay = x[0] * jnp.exp(-t * x[4])
    peaks = x[1:4] * jnp.exp(-((t[:, None] - x[8:11]) ** 2) * x[5:8])
    return np.array(OSBORNE_2_Y) - (decay + peaks.sum(axis=1))


def watson(x: Array) -> Array:
    n = x.size
    powers = (count(29) / 29)[:, None] ** np.arange(n)
    rows = powers[:, :-1] @ (np.arange(1, n) * x[1:]) - (powers @ x) ** 2 - 1
    return jnp.concatenate([rows, jnp.stack([x[0], x[1] - x[0] ** 2 - 1])])


def extended_rosenbrock(x: Array) -> Array:
    odd, even = x[::2], x[1::2]
    return jnp.stack([10 * (even - odd**2), 1 - odd], axis=1).ravel()


def penalty_1(x: Array) -> Array:
    return jnp.append(1e-5**0.5 * (x - 1), x @ x - 0.25)


def penalty_2(x: Array) -> Array:
    n = x.size
    grown, target = jnp.exp(x / 10), np.exp(count(n) / 10)
    pairs = grown[1:] + grown[:-1] - (target[1:] + target[:-1])
    singles = grown[1:] - math.exp(-0.1)
    middle = 1e-5**0.5 * jnp.concatenate([pairs, singles])
    return jnp.concatenate([x[:1] - 0.2, middle, ((n + 1 - count(n)) @ x**2 - 1)[None]])


def variably_dimensioned(x: Array) -> Array:
    total = count(x.size) @ (x - 1)
    return jnp.concatenate([x - 1, jnp.stack([total, total**2])])


def trigonometric(x: Array) -> Array:
    return x.size - jnp.cos(x).sum() + count(x.size) * (1 - jnp.cos(x)) - jnp.sin(x)


def brown_almost_linear(x: Array) -> Array:
    return jnp.append(x[:-1] + x.sum() - (x.size + 1), jnp.prod(x) - 1)


def discrete_boundary_value(x: Array) -> Array:
    h = 1 / (x.size + 1)
    padded = jnp.pad(x, 1)
    return 2 * x - padded[:-2] - padded[2:] + h**2 * (x + h * count(x.size) + 1) ** 3 / 2


def discrete_integral_equation(x: Array) -> Array:
    h = 1 / (x.size + 1)
    t = h * count(x.size)
    cubes = (x + t + 1) ** 3
    kernel = np.minimum(t[:, None], t) * (1 - np.maximum(t[:, None], t))
    return x + h / 2 * kernel @ cubes


def broyden_tridiagonal(x: Array) -> Array:
    padded = jnp.pad(x, 1)
    return (3 - 2 * x) * x - padded[:-2] - 2 * padded[2:] + 1


def broyden_banded(x: Array) -> Array:
    i = np.arange(x.size)
    ahead = i - i[:, None]
    band = ((ahead >= -5) & (ahead <= 1) & (ahead != 0)).astype(float)
    return x * (2 + 5 * x**2) + 1 - band @ (x * (1 + x))


def linear_full_rank(x: Array, m: int = 20) -> Array:
    return jnp.pad(x, (0, m - x.size)) - 2 / m * x.sum() - 1


def linear_rank_1(x: Array, m: int = 20) -> Array:
    return count(m) * (count(x.size) @ x) - 1


def linear_rank_1_zeros(x: Array, m: int = 20) -> Array:
    rows = np.pad(count(m - 2), 1)
    return rows * (count(x.size)[1:-1] @ x[1:-1]) - 1


def chebyquad(x: Array) -> Array:
    """Means of the shifted Chebyshev polynomials less their integrals, by the recurrence."""
    before, now, rows = jnp.ones_like(x), 2 * x - 1, []
    for i in range(1, x.size + 1):
        rows.append(now.mean() + (0 if i % 2 else 1 / (i**2 - 1)))
        before, now = now, 2 * (2 * x - 1) * now - before
    return jnp.stack(rows)


def grid(n: int) -> np.ndarray:
    """1/(n+1), ..., n/(n+1)."""
    return count(n) / (n + 1)


PROBLEMS = [
    Problem("1 Rosenbrock", rosenbrock, (-1.2, 1), (0,)),
    Problem("2 Freudenstein-Roth", freudenstein_roth, (0.5, -2), (0, 48.984254)),
    Problem("3 Powell badly scaled", powell_badly_scaled, (0, 1), (0, 1e-8)),  # x1 -> 0, x2 -> inf
    Problem("4 Brown badly scaled", brown_badly_scaled, (1, 1), (0,)),
    Problem("5 Beale", beale, (1, 1), (0, 0.45200893)),  # x1 -> -inf, x2 -> 1
    Problem("6 Jennrich-Sampson", jennrich_sampson, (0.3, 0.4), (124.36218, 259.58019)),  # x2 -> -inf
    Problem("7 Helical valley", helical_valley, (-1, 0, 0), (0,)),
    Problem("8 Bard", bard, (1, 1, 1), (8.2148773e-3, 17.428693)),  # x2, x3 -> -inf
    Problem("9 Gaussian", gaussian, (0.4, 1, 0), (1.1279328e-8,)),
    Problem("10 Meyer", meyer, (0.02, 4000, 250), (87.945855,)),
    Problem("11 Gulf", gulf, (5, 2.5, 0.15), (0,)),
    Problem("12 Box", box, (0, 10, 20), (0, 0.075588741)),  # x2 -> inf
    Problem("13 Powell singular", powell_singular, (3, -1, 0, 1), (0,)),
    Problem("14 Wood", wood, (-3, -1, -3, -1), (0,)),
    Problem(
        "15 Kowalik-Osborne",
        kowalik_osborne,
        (0.25, 0.39, 0.415, 0.39),
        # x1, -x3, -x4 -> inf; x2, x3, x4 -> inf; two finite
        (3.0750560e-4, 1.0273430e-3, 1.7945391e-3, 4.2367463e-4, 1.5943520e-3),
    ),
    Problem("16 Brown-Dennis", brown_dennis, (25, 5, -5, -1), (85822.202,)),
    Problem("17 Osborne 1", osborne_1, (0.5, 1.5, -1, 0.01, 0.02), (5.4648947e-5,)),
    Problem("18 Biggs EXP6", biggs_exp6, (1, 2, 1, 1, 1, 1), (0, 5.6556499e-3, 0.30636677)),  # x2 -> inf
    Problem(
        "19 Osborne 2",
        osborne_2,
        (1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5),
        (4.0137736e-2, 1.7898136, 26.305657),  # peaks away from the data; x5 -> inf, too
    ),
    Problem("20 Watson, 6", watson, (0,) * 6, (2.2876701e-3,)),
    Problem("20 Watson, 9", watson, (0,) * 9, (1.3997601e-6,)),
    Problem("20 Watson, 12", watson, (0,) * 12, (4.7223811e-10,)),
    Problem("21 Extended Rosenbrock, 10", extended_rosenbrock, (-1.2, 1) * 5, (0,)),
    Problem("22 Extended Powell, 12", powell_singular, (3, -1, 0, 1) * 3, (0,)),
    Problem("23 Penalty I, 4", penalty_1, tuple(count(4)), (2.2499775e-5,)),
    Problem("23 Penalty I, 10", penalty_1, tuple(count(10)), (7.0876515e-5,)),
    Problem("24 Penalty II, 4", penalty_2, (0.5,) * 4, (9.3762930e-6,)),
    Problem("24 Penalty II, 10", penalty_2, (0.5,) * 10, (2.9366054e-4,)),
    Problem("25 Variably dimensioned, 10", variably_dimensioned, tuple(1 - count(10) / 10), (0,)),
    Problem(
        "26 Trigonometric, 10",
        trigonometric,
        (0.1,) * 10,
        (0, 2.7950561e-5, 4.4735658e-7, 4.2186339e-5, 8.7882252e-4),
    ),
    Problem("27 Brown almost linear, 10", brown_almost_linear, (0.5,) * 10, (0, 1)),
    Problem("28 Boundary value, 10", discrete_boundary_value, tuple(grid(10) * (grid(10) - 1)), (0,)),
    Problem("29 Integral equation, 10", discrete_integral_equation, tuple(grid(10) * (grid(10) - 1)), (0,)),
    Problem(
        "30 Broyden tridiagonal, 10",
        broyden_tridiagonal,
        (-1,) * 10,
        (0, 0.39737347, 0.71260602, 1.0286520, 1.0512262, 1.3495361, 1.3602559),
    ),
    Problem("31 Broyden banded, 10", broyden_banded, (-1,) * 10, (0, 2.6802199, 3.0572784)),
    Problem("32 Linear full rank, 10", linear_full_rank, (1,) * 10, (10,)),
    Problem("33 Linear rank 1, 10", linear_rank_1, (1,) * 10, (190 / 41,)),
    Problem("34 Linear rank 1, zeros, 10", linear_rank_1_zeros, (1,) * 10, (227 / 37,)),
    Problem("35 Chebyquad, 8", chebyquad, tuple(grid(8)), (3.5168737e-3,)),
    Problem("35 Chebyquad, 9", chebyquad, tuple(grid(9)), (0,)),
    Problem("35 Chebyquad, 10", chebyquad, tuple(grid(10)), (4.7727137e-3, 6.5039548e-3, 9.5006288e-3)),
]


def sum_of_squares(residual: Residual, x: np.ndarray) -> float:
    return float(np.sum(np.asarray(residual(jnp.asarray(x))) ** 2))


def start(problem: Problem, factor: float) -> np.ndarray:
    """The standard start times a factor; for a start at the origin, the factor in every coordinate."""
    standard = np.array(problem.start, float)
    return factor * standard if factor == 1 or standard.any() else np.full_like(standard, factor)


def outcome(problem: Problem, f: float) -> str:
    """solved, local or neither, by the rules at the head of this file."""
    best, *others = problem.minima
    tiny = 1e-12 * min(1, sum_of_squares(problem.residual, start(problem, 1)))
    if f <= (best * (1 + 1e-5) if best else tiny):
        return "solved"
    return "local" if any(abs(f - other) <= 1e-3 * other for other in others) else "neither"


def ours(solver: gb.solvers.Solver | None) -> Method:
    def run(residual: Residual, x: np.ndarray) -> np.ndarray:
        return np.asarray(gb.least_squares(residual, x, solver=solver, max_steps=MAX_STEPS).params)

    return run


def by_scipy(method: str) -> Method:
    def run(residual: Residual, x: np.ndarray) -> np.ndarray:
        value, jacobian = jax.jit(residual), jax.jit(jax.jacfwd(residual))
        return scipy.optimize.least_squares(
            lambda x: np.asarray(value(x)),
            x,
            jac=lambda x: np.asarray(jacobian(x)),
            method=method,
            ftol=1e-12,
            xtol=1e-12,
            gtol=1e-12,
            max_nfev=MAX_STEPS,
        ).x

    return run


def methods() -> dict[str, Method]:
    import optimistix  # noqa: PLC0415 - the problems are of use without it

    def by_optimistix(solver) -> Method:
        def run(residual: Residual, x: np.ndarray) -> np.ndarray:
            solution = optimistix.least_squares(
                lambda x, _: residual(x), solver, jnp.asarray(x), max_steps=MAX_STEPS, throw=False
            )
            return np.asarray(solution.value)

        return run

    return {
        "gaussbell LM": ours(None),
        "gaussbell dogleg": ours(gb.Dogleg()),
        "optimistix LM": by_optimistix(optimistix.LevenbergMarquardt(rtol=1e-10, atol=1e-10)),
        "optimistix dogleg": by_optimistix(optimistix.Dogleg(rtol=1e-10, atol=1e-10)),
        "SciPy trf": by_scipy("trf"),
        "SciPy lm": by_scipy("lm"),
    }


def measure(problem: Problem, method: Method, factor: float) -> dict:
    """Where a method ends; one that raises has got nowhere."""
    try:
        with warnings.catch_warnings(action="ignore"):
            f = sum_of_squares(problem.residual, method(problem.residual, start(problem, factor)))
    except Exception as error:
        return {"f": math.nan, "outcome": "neither", "error": f"{type(error).__name__}: {error}"}
    return {"f": f, "outcome": outcome(problem, f)}


def cell(run: dict) -> str:
    if run["outcome"] != "neither":
        return "yes" if run["outcome"] == "solved" else "local"
    return f"{run['f']:.1e}" if math.isfinite(run["f"]) else "failed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    console, results = Console(width=max(175, Console().width)), {}
    contestants = methods()
    columns = [(name, label) for name in contestants for label in STARTS]
    table = Table(title="Moré-Garbow-Hillstrom problems, from x0 and 10 x0", title_justify="left")
    table.add_column("problem", no_wrap=True)
    for name, label in columns:
        table.add_column("\n".join([*name.split(), label]), no_wrap=True)
    for problem in PROBLEMS:
        runs = {}
        for name, label in columns:
            with console.status(f"{problem.name}: {name}"):
                runs[f"{name}, {label}"] = measure(problem, contestants[name], STARTS[label])
        results[problem.name] = runs
        table.add_row(problem.name, *map(cell, runs.values()))
        jax.clear_caches()  # hundreds of compiled programs in one process exhaust its memory maps
    totals = {
        key: Counter(runs[key]["outcome"] for runs in results.values())
        for key in next(iter(results.values()))
    }
    table.add_section()
    for kind in ("solved", "local", "neither"):
        table.add_row(f"{kind}, of {len(PROBLEMS)}", *(str(total[kind]) for total in totals.values()))
    console.print(table)
    record = {"versions": records.versions(), "max_steps": MAX_STEPS, "totals": totals, "results": results}
    path = records.write(arguments.out / "more_garbow_hillstrom.json", record)
    console.print(f"Wrote {path}.", highlight=False)


if __name__ == "__main__":
    main()
