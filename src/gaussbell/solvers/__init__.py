"""Methods, one a file; each is a step that `solve` repeats."""

from gaussbell.solvers.backtracking import BacktrackingGaussNewton
from gaussbell.solvers.dogleg import Dogleg
from gaussbell.solvers.first_order import FirstOrder
from gaussbell.solvers.gauss_newton import GaussNewton, SemiGaussNewton
from gaussbell.solvers.gradient import ResidualAlgorithm, ResidualGradient, SemiGradient
from gaussbell.solvers.levenberg_marquardt import LevenbergMarquardt
from gaussbell.solvers.minibatch import Minibatch
from gaussbell.solvers.solver import FixedStep, Solver, State, StepInfo

__all__ = [
    "BacktrackingGaussNewton",
    "Dogleg",
    "FirstOrder",
    "FixedStep",
    "GaussNewton",
    "LevenbergMarquardt",
    "Minibatch",
    "ResidualAlgorithm",
    "ResidualGradient",
    "SemiGaussNewton",
    "SemiGradient",
    "Solver",
    "State",
    "StepInfo",
]
