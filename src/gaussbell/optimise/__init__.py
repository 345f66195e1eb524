"""Nonlinear least squares: a problem, solvers that know one step, and the one loop that repeats it."""

from gaussbell.optimise import solvers
from gaussbell.optimise.least_squares import least_squares
from gaussbell.optimise.problem import LeastSquaresProblem, Linearisation
from gaussbell.optimise.solution import History, Solution, SolveFailed, SolveInterrupted, Status
from gaussbell.optimise.solve import Progress

__all__ = [
    "History",
    "LeastSquaresProblem",
    "Linearisation",
    "Progress",
    "Solution",
    "SolveFailed",
    "SolveInterrupted",
    "Status",
    "least_squares",
    "solvers",
]
