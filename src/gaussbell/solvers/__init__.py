"""Methods, one a file; each is a step that `solve` repeats."""

from gaussbell.solvers.dogleg import Dogleg
from gaussbell.solvers.gauss_newton import GaussNewton, SemiGaussNewton
from gaussbell.solvers.gradient import ResidualGradient, SemiGradient
from gaussbell.solvers.levenberg_marquardt import LevenbergMarquardt
from gaussbell.solvers.solver import FixedStep, Solver, State, StepInfo

__all__ = [
    "Dogleg",
    "FixedStep",
    "GaussNewton",
    "LevenbergMarquardt",
    "ResidualGradient",
    "SemiGaussNewton",
    "SemiGradient",
    "Solver",
    "State",
    "StepInfo",
]
