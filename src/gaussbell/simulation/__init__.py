"""Simulators put to use: transitions to fit, and Monte-Carlo estimates to compare with."""

from gaussbell.simulation import monte_carlo
from gaussbell.simulation.sampling import sample_transitions

__all__ = ["monte_carlo", "sample_transitions"]
