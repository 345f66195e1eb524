"""Numerics without networks or reinforcement learning: precision, packing, damped solves, Jacobians."""

from gaussbell.numerics import linalg

__all__ = ["linalg"]
