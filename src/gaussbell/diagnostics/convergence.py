"""How fast a run converged in the end."""

from typing import Any

import numpy as np


def order_of_convergence(errors: Any, *, floor: float, pairs: int = 4) -> float:
    """The order q in error_{k+1} ~ constant * error_k^q, fitted to the end of a sequence of errors.

    It is the slope of log error_{k+1} against log error_k over the last `pairs` pairs in which both errors
    are above `floor` (where rounding takes over) and fall. NaN with fewer than two such pairs. One is
    linear convergence, two is quadratic.

    Example:
        >>> from gaussbell.diagnostics import order_of_convergence
        >>> round(order_of_convergence([1e-1, 1e-2, 1e-4, 1e-8], floor=1e-14), 3)
        2.0
        >>> round(order_of_convergence([0.5**k for k in range(20)], floor=1e-14), 3)
        1.0
    """
    errors = np.asarray(errors, float)
    before, after = errors[:-1], errors[1:]
    useful = np.flatnonzero((after > floor) & (after < before))[-pairs:]
    if len(useful) < 2:
        return float("nan")
    x, y = np.log(before[useful]), np.log(after[useful])
    return float(np.polyfit(x, y, 1)[0])
