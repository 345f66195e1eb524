"""Environments, one a file."""

from gaussbell.environments.acrobot import Acrobot
from gaussbell.environments.cart_pole import CartPole
from gaussbell.environments.environment import Environment, Paths
from gaussbell.environments.mountain_car import MountainCar
from gaussbell.environments.pendulum import Pendulum
from gaussbell.environments.seven_star import SevenStar

__all__ = ["Acrobot", "CartPole", "Environment", "MountainCar", "Paths", "Pendulum", "SevenStar"]
