"""What a network and its data tell about a fit: an assessment, spectra, curvature, order of convergence."""

from gaussbell.diagnostics.assessment import Assessment, Reference, assess
from gaussbell.diagnostics.checks import Checks, check
from gaussbell.diagnostics.convergence import order_of_convergence
from gaussbell.diagnostics.gptd import gptd
from gaussbell.diagnostics.hessians import (
    Curvature,
    HessianTerms,
    curvature,
    hessian_product,
    hessian_terms,
    second_order_share,
)
from gaussbell.diagnostics.jacobian_spectra import Spectra, Spectrum, spectra, spectrum
from gaussbell.diagnostics.loss_landscape import Landscape, landscape
from gaussbell.diagnostics.neighbours import nearest_neighbour_averager, neighbour_values

__all__ = [
    "Assessment",
    "Checks",
    "Curvature",
    "HessianTerms",
    "Landscape",
    "Reference",
    "Spectra",
    "Spectrum",
    "assess",
    "check",
    "curvature",
    "gptd",
    "hessian_product",
    "hessian_terms",
    "landscape",
    "nearest_neighbour_averager",
    "neighbour_values",
    "order_of_convergence",
    "second_order_share",
    "spectra",
    "spectrum",
]
