"""Methods, one a file; each is a step that `solve` repeats."""

from gaussbell.optimise.solvers.backtracking import BacktrackingGaussNewton
from gaussbell.optimise.solvers.dogleg import Dogleg
from gaussbell.optimise.solvers.first_order import FirstOrder
from gaussbell.optimise.solvers.gauss_newton import GaussNewton, SemiGaussNewton
from gaussbell.optimise.solvers.gradient import ResidualAlgorithm, ResidualGradient, SemiGradient
from gaussbell.optimise.solvers.levenberg_marquardt import LevenbergMarquardt
from gaussbell.optimise.solvers.minibatch import Minibatch
from gaussbell.optimise.solvers.solver import FixedStep, Solver, State, StepInfo

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
