"""What a network and its data tell about a fit: ranks, spectra, curvature, and the order of convergence."""

from gaussbell.diagnostics.convergence import order_of_convergence
from gaussbell.diagnostics.hessians import (
    Curvature,
    HessianTerms,
    curvature,
    hessian_product,
    hessian_terms,
    second_order_share,
)
from gaussbell.diagnostics.ranks import Spectra, Spectrum, spectra, spectrum

__all__ = [
    "Curvature",
    "HessianTerms",
    "Spectra",
    "Spectrum",
    "curvature",
    "hessian_product",
    "hessian_terms",
    "order_of_convergence",
    "second_order_share",
    "spectra",
    "spectrum",
]
