"""Value functions that others made, on the host."""

from collections.abc import Callable
from typing import Any

import numpy as np


class HostValues:
    """A value function on the host: a batch of states (N, d) to N numbers, by whatever library.

    Attributes:
        discount: The discount that it was made for, if that is known.
    """

    def __init__(self, function: Callable[[np.ndarray], Any], discount: float | None = None):
        self.function, self.discount = function, discount

    def __call__(self, states: Any) -> np.ndarray:
        states = np.asarray(states, float)
        if len(states) == 0:
            return np.zeros(0)
        given = self.function(states)
        detached = getattr(given, "detach", lambda: given)()
        values = np.asarray(getattr(detached, "cpu", lambda: detached)(), float).reshape(-1)
        if len(values) != len(states):
            raise ValueError(
                f"critic: for {len(states)} states it returned {len(values)} numbers; give a function of a "
                "batch of states (N, d) that returns one value each."
            )
        return values
