"""Environments, one a file."""

from gaussbell.environments.acrobot import Acrobot
from gaussbell.environments.cart_pole import CartPole
from gaussbell.environments.environment import Environment, Paths
from gaussbell.environments.finite import (
    ChainWalk,
    FiniteEnvironment,
    GridWorld,
    RandomMDP,
    exact_transitions,
)
from gaussbell.environments.gymnasium import GymnasiumEnvironment, from_gymnasium
from gaussbell.environments.mountain_car import MountainCar
from gaussbell.environments.pendulum import Pendulum
from gaussbell.environments.registration import register_with_gymnasium
from gaussbell.environments.seven_star import SevenStar

register_with_gymnasium()

__all__ = [
    "Acrobot",
    "CartPole",
    "ChainWalk",
    "Environment",
    "FiniteEnvironment",
    "GridWorld",
    "GymnasiumEnvironment",
    "MountainCar",
    "Paths",
    "Pendulum",
    "RandomMDP",
    "SevenStar",
    "exact_transitions",
    "from_gymnasium",
]
