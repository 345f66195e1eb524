"""The four methods that the paper compares, by their names here."""

from collections.abc import Callable
from typing import Any

import gaussbell as gb

SEMI_GRADIENT = "semi-gradient"
RESIDUAL_GRADIENT = "residual gradient"
SEMI_GAUSS_NEWTON = "semi-gradient Gauss-Newton"
GAUSS_NEWTON = "residual Gauss-Newton"
OURS = "ours"

METHODS: dict[str, Callable[[float], Any]] = {
    SEMI_GRADIENT: gb.SemiGradient,
    RESIDUAL_GRADIENT: gb.ResidualGradient,
    SEMI_GAUSS_NEWTON: gb.SemiGaussNewton,
    GAUSS_NEWTON: gb.GaussNewton,
}
"""Each makes a solver from a step size; the damping is the paper's."""
