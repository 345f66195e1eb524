"""Environments, one a file."""

from gaussbell.environments.mountain_car import MountainCar
from gaussbell.environments.seven_star import SevenStar

__all__ = ["MountainCar", "SevenStar"]
