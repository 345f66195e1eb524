"""How close is equal, in relative error."""

EXACT = 1e-12
"""The same formula, in another order of operations."""

SOLVED = 1e-9
"""Through a linear solve."""

CURVATURE = 1e-8
"""A Hessian, against autodiff."""

DIFFERENCES = 1e-6
"""Against central differences."""
