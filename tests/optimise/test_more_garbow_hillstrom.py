"""The Moré-Garbow-Hillstrom problems of benchmarks/ against published values and exact facts."""

import functools
import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

FILE = Path(__file__).parents[2] / "benchmarks" / "more_garbow_hillstrom.py"
SPEC = importlib.util.spec_from_file_location("more_garbow_hillstrom", FILE)
assert SPEC is not None and SPEC.loader is not None
mgh = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mgh)

DIGITS = 6e-8
"""Eight digits, rounded."""

PROBLEMS = {problem.name: problem for problem in mgh.PROBLEMS}

# (n, m) in the paper's order; problems with a free n as they are listed.
SIZES = [
    *((2, 2), (2, 2), (2, 2), (2, 3), (2, 3), (2, 10), (3, 3), (3, 15), (3, 15), (3, 16), (3, 99), (3, 10)),
    *((4, 4), (4, 6), (4, 11), (4, 20), (5, 33), (6, 13), (11, 65), (6, 31), (9, 31), (12, 31)),
    *((10, 10), (12, 12), (4, 5), (10, 11), (4, 8), (10, 20), (10, 12)),
    *((10, 10), (10, 10), (10, 10), (10, 10), (10, 10), (10, 10), (10, 20), (10, 20), (10, 20)),
    *((8, 8), (9, 9), (10, 10)),
]

# Norms of the residual at x0 and 10 x0 that MINPACK's own test programs print.
MINPACK_NORMS = {
    "1 Rosenbrock": (4.9193496, 1340.0631),
    "2 Freudenstein-Roth": (20.012496, 12432.834),
    "3 Powell badly scaled": (1.0654866, 1.0),
    "6 Jennrich-Sampson": (64.585650, None),
    "7 Helical valley": (50.0, 102.95630),
    "8 Bard": (6.4561363, 36.141853),
    "10 Meyer": (41153.467, 4168216.9),
    "12 Box": (32.111584, None),
    "13 Powell singular": (14.662878, 1270.9839),
    "15 Kowalik-Osborne": (0.072891510, 2.9793701),
    "16 Brown-Dennis": (2815.4384, 555073.35),
    "17 Osborne 1": (0.93756402, None),
    "19 Osborne 2": (1.4468654, None),
    "20 Watson, 6": (5.4772256, 6433.1258),
    "20 Watson, 9": (5.4772256, 12088.127),
    "20 Watson, 12": (5.4772256, 19220.759),
    "26 Trigonometric, 10": (0.084117534, 20.305195),
    "27 Brown almost linear, 10": (16.530216, 9765624.0),
    "28 Boundary value, 10": (0.028080582, 0.52555258),
    "29 Integral equation, 10": (0.25182701, 6.1168330),
    "30 Broyden tridiagonal, 10": (4.5825757, 639.10093),
    "31 Broyden banded, 10": (18.973666, 17130.922),
    "35 Chebyquad, 8": (0.19651386, None),
    "35 Chebyquad, 9": (0.16994993, None),
    "35 Chebyquad, 10": (0.18374783, None),
}

# f(x0) by hand.
EXACT_STARTS = {
    "1 Rosenbrock": 24.2,
    "2 Freudenstein-Roth": 400.5,
    "4 Brown badly scaled": (1e6 - 1) ** 2 + (1 - 2e-6) ** 2 + 1,
    "5 Beale": 14.203125,
    "7 Helical valley": 2500,
    "13 Powell singular": 215,
    "14 Wood": 19192,
    "20 Watson, 6": 30,
    "21 Extended Rosenbrock, 10": 5 * 24.2,
    "22 Extended Powell, 12": 3 * 215,
    "23 Penalty I, 4": 29.75**2 + 14e-5,
    "23 Penalty I, 10": 384.75**2 + 285e-5,
    "25 Variably dimensioned, 10": 3.85 + 38.5**2 + 38.5**4,
    "30 Broyden tridiagonal, 10": 21,
    "31 Broyden banded, 10": 360,
    "32 Linear full rank, 10": 50,
    "33 Linear rank 1, 10": 8658670,
    "34 Linear rank 1, zeros, 10": 4067996,
}

# Exact minimisers with the least, or a listed, sum of squares.
MINIMISERS = [
    ("1 Rosenbrock", (1, 1), 0),
    ("2 Freudenstein-Roth", (5, 4), 0),
    ("4 Brown badly scaled", (1e6, 2e-6), 0),
    ("5 Beale", (3, 0.5), 0),
    ("7 Helical valley", (1, 0, 0), 0),
    ("11 Gulf", (50, 25, 1.5), 0),
    ("12 Box", (1, 10, 1), 0),
    ("12 Box", (10, 1, -1), 0),
    ("12 Box", (7, 7, 0), 0),
    ("13 Powell singular", (0,) * 4, 0),
    ("14 Wood", (1,) * 4, 0),
    ("18 Biggs EXP6", (1, 10, 1, 5, 4, 3), 0),
    ("18 Biggs EXP6", (4, 10, 3, 5, 1, 1), 0),
    ("21 Extended Rosenbrock, 10", (1,) * 10, 0),
    ("22 Extended Powell, 12", (0,) * 12, 0),
    ("25 Variably dimensioned, 10", (1,) * 10, 0),
    ("26 Trigonometric, 10", (0,) * 10, 0),
    ("27 Brown almost linear, 10", (1,) * 10, 0),
    ("27 Brown almost linear, 10", (0,) * 9 + (11,), 1),
    ("32 Linear full rank, 10", (-1,) * 10, 20 - 10),
    ("33 Linear rank 1, 10", (3 / 41, *(0,) * 9), 20 * 19 / (2 * 41)),
    ("34 Linear rank 1, zeros, 10", (5, 3 / 74, *(0,) * 7, 5), (20**2 + 60 - 6) / (2 * 37)),
]

# Starts from which SciPy finds listed minima; the value as published, with the digits published.
PUBLISHED = [
    ("2 Freudenstein-Roth", None, "4.89842e1"),
    ("6 Jennrich-Sampson", None, "1.24362e2"),
    ("6 Jennrich-Sampson", (0.33, -1e3), "2.5958019e2"),
    ("8 Bard", None, "8.21487e-3"),
    ("8 Bard", (0.8, -1e6, -1e6), "1.74286e1"),
    ("9 Gaussian", None, "1.12793e-8"),
    ("10 Meyer", None, "8.79458e1"),
    ("15 Kowalik-Osborne", None, "3.07505e-4"),
    ("15 Kowalik-Osborne", (1e6, -14, -4.5e7, -2.8e7), "1.02734e-3"),
    ("16 Brown-Dennis", None, "8.58222e4"),
    ("17 Osborne 1", None, "5.46489e-5"),
    ("18 Biggs EXP6", (1.7, 17.7, -0.4, 5.2, 1.7, 2.7), "5.65565e-3"),
    ("18 Biggs EXP6", (1.2, 1e5, 0.8, 1, 1.2, 0.8), "3.0636677e-1"),
    ("19 Osborne 2", None, "4.01377e-2"),
    ("19 Osborne 2", (13, 6.5, 6.5, 7, 6, 30, 50, 70, 20, 45, 55), "1.7898135"),
    ("20 Watson, 6", None, "2.28767e-3"),
    ("20 Watson, 9", None, "1.39976e-6"),
    ("20 Watson, 12", None, "4.72238e-10"),
    ("23 Penalty I, 4", None, "2.24997e-5"),
    ("23 Penalty I, 10", None, "7.08765e-5"),
    ("24 Penalty II, 4", None, "9.37629e-6"),
    ("24 Penalty II, 10", None, "2.93660e-4"),
    ("26 Trigonometric, 10", None, "2.79505e-5"),
    ("30 Broyden tridiagonal, 10", (1.8, -0.1, -0.6, -0.6, -0.6, -0.4, -0.1, 0.7, 1.3, 0.2), "3.9737346e-1"),
    ("30 Broyden tridiagonal, 10", (1.8, -0.1, -0.6, -0.7, -0.7, -0.6, -0.5, -0.1, 0.8, 1.4), "7.1260601e-1"),
    ("30 Broyden tridiagonal, 10", (1.6, 0.4, 0.2, 0.6, 1.1, 0.6, 0.4, 0.8, 1.2, 0.3), "1.0286520"),
    ("30 Broyden tridiagonal, 10", (1.8, 0, -0.3, -0.1, 0.7, 1.5, -0.1, -0.5, -0.5, -0.4), "1.0512261"),
    ("30 Broyden tridiagonal, 10", (1.7, 0.1, -0.2, 0, 0.7, 1.2, 0.4, 0.3, 0.8, 1.3), "1.3495361"),
    ("30 Broyden tridiagonal, 10", (0.9, 1.4, -0.1, -0.5, -0.6, -0.4, 0, 0.7, 1.3, 0.2), "1.3602559"),
    ("31 Broyden banded, 10", (0.2, 0.3, 0.4, 0.4, 0.6, 0.7, 0.8, 0.9, 1, 1), "2.6802199"),
    ("31 Broyden banded, 10", (0.2, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 0, -0.1, -0.2), "3.0572784"),
    ("35 Chebyquad, 8", None, "3.51687e-3"),
    ("35 Chebyquad, 10", None, "6.50395e-3"),
]

# Listed minima beyond those, by their place in the list.
FOUND = [
    ("12 Box", (0.6, 1e4, 1.3), 1),
    ("15 Kowalik-Osborne", (0.23, -0.41, -0.02, -0.18), 3),
    ("15 Kowalik-Osborne", (0.23, -1.29, -0.84, -0.55), 4),
    ("26 Trigonometric, 10", (0.05, 0.05, 0.05, 0.06, 0.06, 0.06, 0.22, 0.07, 0.14, 0.09), 2),
    ("26 Trigonometric, 10", (0.05, 0.06, 0.06, 0.06, 0.06, 0.26, 0.07, 0.07, 0.08, 0.08), 3),
    ("26 Trigonometric, 10", (0.06, 0.06, 0.07, 0.07, 0.28, 0.08, 0.08, 0.08, 0.08, 0.08), 4),
    ("35 Chebyquad, 10", (0.07, 0.17, 0.29, 0.36, 0.47, 0.61, 0.62, 0.8, 0.84, 0.97), 0),
    ("35 Chebyquad, 10", (0.03, 0.13, 0.21, 0.38, 0.39, 0.61, 0.62, 0.79, 0.87, 0.97), 2),
]


@functools.cache
def compiled(name):
    residual = PROBLEMS[name].residual
    return jax.jit(residual), jax.jit(jax.jacfwd(residual))


def value(name, x):
    return float(np.sum(np.asarray(compiled(name)[0](np.array(x, float))) ** 2))


def solve(name, start=None):
    residual, jacobian = compiled(name)
    return scipy.optimize.least_squares(
        lambda x: np.asarray(residual(x)),
        np.array(PROBLEMS[name].start if start is None else start, float),
        jac=lambda x: np.asarray(jacobian(x)),
        method="lm",
        ftol=1e-14,
        xtol=1e-14,
        gtol=1e-14,
    )


def test_all_35_are_there_in_order_with_sizes_and_precision():
    numbers = [int(name.split()[0]) for name in PROBLEMS]
    assert numbers == sorted(numbers) and set(numbers) == set(range(1, 36))
    for problem, (n, m) in zip(mgh.PROBLEMS, SIZES, strict=True):
        x = jnp.asarray(problem.start, float)
        out = jax.eval_shape(problem.residual, x)
        assert (x.shape, out.shape, out.dtype) == ((n,), (m,), jnp.float64), problem.name
        free = re.search(r", (\d+)$", problem.name)
        assert free is None or int(free[1]) == n
        assert problem.minima[0] == min(problem.minima) >= 0


@pytest.mark.parametrize("name", MINPACK_NORMS)
def test_residuals_have_the_norms_that_minpack_prints(name):
    for factor, norm in zip((1, 10), MINPACK_NORMS[name], strict=True):
        if norm is not None:
            assert value(name, mgh.start(PROBLEMS[name], factor)) ** 0.5 == pytest.approx(norm, rel=DIGITS)


@pytest.mark.parametrize("name", EXACT_STARTS)
def test_sum_of_squares_at_the_start(name):
    assert value(name, PROBLEMS[name].start) == pytest.approx(EXACT_STARTS[name], rel=1e-12)


@pytest.mark.parametrize(("name", "x", "f"), MINIMISERS)
def test_exact_minimisers(name, x, f):
    assert value(name, x) == pytest.approx(f, rel=1e-12, abs=1e-25)
    assert any(f == pytest.approx(minimum, rel=1e-12) for minimum in PROBLEMS[name].minima)
    residual, jacobian = (np.asarray(function(np.array(x, float))) for function in compiled(name))
    assert np.abs(residual @ jacobian).max() < 1e-9


@pytest.mark.parametrize(("name", "start", "published"), PUBLISHED)
def test_scipy_finds_the_published_minima(name, start, published):
    f = 2 * solve(name, start).cost
    mantissa, _, exponent = published.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    assert -0.01 <= (f - float(published)) / unit < 1.01  # the published digits are cut off, not rounded
    assert any(f == pytest.approx(minimum, rel=DIGITS) for minimum in PROBLEMS[name].minima)


@pytest.mark.parametrize(("name", "start", "which"), FOUND)
def test_scipy_finds_the_other_listed_minima(name, start, which):
    assert 2 * solve(name, start).cost == pytest.approx(PROBLEMS[name].minima[which], rel=DIGITS)


@pytest.mark.parametrize(
    "name",
    [
        "3 Powell badly scaled",
        "28 Boundary value, 10",
        "29 Integral equation, 10",
        "30 Broyden tridiagonal, 10",
        "31 Broyden banded, 10",
        "35 Chebyquad, 9",
    ],
)
def test_scipy_finds_the_zeros_without_a_formula(name):
    assert 2 * solve(name).cost < 1e-25


def test_known_digits_of_solutions():
    np.testing.assert_allclose(solve("3 Powell badly scaled").x, (1.09815933e-5, 9.106146738), rtol=1e-8)
    np.testing.assert_allclose(solve("16 Brown-Dennis").x, (-11.59444, 13.20363, -0.4034395, 0.2367788), 1e-6)
    np.testing.assert_allclose(solve("8 Bard").x, (0.08241056, 1.133036, 2.343695), rtol=1e-6)


def test_boundary_value_and_integral_equation_have_the_same_solution():
    assert value("29 Integral equation, 10", solve("28 Boundary value, 10").x) < 1e-25


def test_limits_at_infinity():
    """Where a coordinate is infinite the problem has fewer, and these are their minima."""
    assert value("3 Powell badly scaled", (1e-12, 1e8)) == pytest.approx(1e-8, rel=1e-7)
    y, i = np.array([1.5, 2.25, 2.625]), np.arange(1, 4)
    assert y @ y - (y @ i) ** 2 / (i @ i) == pytest.approx(PROBLEMS["5 Beale"].minima[1], rel=DIGITS)
    assert 15 * np.var(mgh.BARD_Y) == pytest.approx(PROBLEMS["8 Bard"].minima[1], rel=DIGITS)
    u, y = np.array(mgh.KOWALIK_OSBORNE_U), np.array(mgh.KOWALIK_OSBORNE_Y)
    fit = scipy.optimize.least_squares(lambda a: y - a[0] * u / (u + a[1]), (0.2, 0.4), xtol=1e-14)
    assert 2 * fit.cost == pytest.approx(PROBLEMS["15 Kowalik-Osborne"].minima[2], rel=DIGITS)
    assert np.sum(np.square(mgh.OSBORNE_2_Y[1:])) == pytest.approx(
        PROBLEMS["19 Osborne 2"].minima[2], rel=DIGITS
    )


def test_outcomes():
    meyer, biggs = PROBLEMS["10 Meyer"], PROBLEMS["18 Biggs EXP6"]
    assert mgh.outcome(meyer, 87.9459) == "solved"
    assert mgh.outcome(meyer, 87.95) == mgh.outcome(meyer, np.nan) == "neither"
    assert mgh.outcome(biggs, 1e-13) == "solved"
    assert mgh.outcome(biggs, 1e-11) == "neither"
    assert mgh.outcome(biggs, 5.656e-3) == "local"


def test_ten_times_a_start_at_the_origin():
    assert (mgh.start(PROBLEMS["20 Watson, 6"], 10) == 10).all()
    assert (mgh.start(PROBLEMS["20 Watson, 6"], 1) == 0).all()
    assert (mgh.start(PROBLEMS["7 Helical valley"], 10) == (-10, 0, 0)).all()
