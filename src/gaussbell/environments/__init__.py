"""Environments, one a file."""

from gaussbell.environments.seven_star import SevenStar

__all__ = ["SevenStar"]
