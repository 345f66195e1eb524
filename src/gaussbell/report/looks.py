"""The colour of each method, the same in every chart."""

from gaussbell.experiments.methods import (
    GAUSS_NEWTON,
    OURS,
    RESIDUAL_GRADIENT,
    SEMI_GAUSS_NEWTON,
    SEMI_GRADIENT,
)
from gaussbell.report.parts import Colour

METHODS: dict[str, Colour] = {
    SEMI_GRADIENT: "orange",
    RESIDUAL_GRADIENT: "green",
    SEMI_GAUSS_NEWTON: "vermilion",
    GAUSS_NEWTON: "blue",
    OURS: "purple",
    "Levenberg-Marquardt": "purple",
}
