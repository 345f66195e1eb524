"""Baird's star with seven states, adapted so that it goes on for ever (label fig:seven_star_graph)."""

import numpy as np

from gaussbell.processes.finite_mdp import FiniteMDP


class SevenStar(FiniteMDP):
    """Six outer states that lead to the centre, and a centre that is left, rarely, for each of them.

    State 0 is the centre: it stays with probability 0.94 and goes to each outer state with 0.01. Outer
    states go to the centre for certain. There is one action. The paper says that the reward of one is
    "present at the central node" and writes the residual F - P (R + discount F), in which a reward belongs
    to the state that is reached; so it is given for every step that ends in the centre.

    Example:
        >>> import gaussbell as gb
        >>> chain = gb.environments.SevenStar().under()
        >>> chain.values.round(2).tolist()
        [94.34, 94.39, 94.39, 94.39, 94.39, 94.39, 94.39]
    """

    def __init__(self, discount: float = 0.99):
        transition = np.zeros((7, 1, 7))
        transition[0, 0, 0] = 0.94
        transition[0, 0, 1:] = 0.01
        transition[1:, 0, 0] = 1.0
        reward = np.zeros((7, 1, 7))
        reward[:, 0, 0] = 1.0
        super().__init__(transition, reward, discount)
