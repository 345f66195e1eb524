"""Environments, one a file, and Gymnasium's; all of them implement the Simulator protocol.

`import gaussbell.environments.registered` makes ours known to `gymnasium.make`.
"""

from gaussbell.environments.acrobot import Acrobot
from gaussbell.environments.cart_pole import CartPole
from gaussbell.environments.environment import Environment
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
from gaussbell.environments.seven_star import SevenStar
from gaussbell.environments.simulator import Paths, Simulator

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
    "Simulator",
    "exact_transitions",
    "from_gymnasium",
]
