"""What a network and its data tell about a fit: ranks, curvature, order of convergence, and trust."""

from gaussbell.diagnostics.checks import Checks, check
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
from gaussbell.diagnostics.slices import Landscape, landscape
from gaussbell.diagnostics.smooth import smooth_value
from gaussbell.diagnostics.verdict import Trust, trust

__all__ = [
    "Checks",
    "Curvature",
    "HessianTerms",
    "Landscape",
    "Spectra",
    "Spectrum",
    "Trust",
    "check",
    "curvature",
    "hessian_product",
    "hessian_terms",
    "landscape",
    "order_of_convergence",
    "second_order_share",
    "smooth_value",
    "spectra",
    "spectrum",
    "trust",
]
