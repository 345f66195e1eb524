"""Finding a policy: policy iteration (Algorithm 2), and the recipes it is made of."""

from gaussbell.control.iteration import default_network, policy_iteration
from gaussbell.control.recipe import Always, Evaluation, NotWorse, Recipe, algorithm_2, default_recipe
from gaussbell.control.replay import Fresh, Replay
from gaussbell.control.solution import IterationInterrupted, PolicySolution, PolicyStatus, Sweep
from gaussbell.control.states import Mixed, Starts, Uniform, Visited

__all__ = [
    "Always",
    "Evaluation",
    "Fresh",
    "IterationInterrupted",
    "Mixed",
    "NotWorse",
    "PolicySolution",
    "PolicyStatus",
    "Recipe",
    "Replay",
    "Starts",
    "Sweep",
    "Uniform",
    "Visited",
    "algorithm_2",
    "default_network",
    "default_recipe",
    "policy_iteration",
]
