"""Acrobot: two links, a motor in the middle joint, and a height to reach."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gaussbell.environments.environment import Environment, check_ending, near
from gaussbell.environments.pendulum import wrap
from gaussbell.environments.tasks import Reach
from gaussbell.networks import features
from gaussbell.processes.actions import DiscreteActions
from gaussbell.processes.policies import Policy

SECONDS, GRAVITY, INERTIA = 0.2, 9.8, 1.0
LENGTH, CENTRE, MASS = 1.0, 0.5, 1.0  # of each link; its centre of mass lies half way
TOP_SPEED_1, TOP_SPEED_2 = 4 * np.pi, 9 * np.pi


class Acrobot(Environment):
    """The angles of both links, hanging at 0, and their speeds; torque -1 (0), 0 (1) or 1 (2).

    The dynamics are those of Acrobot-v1 (the book's version, a Runge-Kutta step of 0.2 s), which shows
    cosines and sines of the angles. A step that brings the tip above the line has reward 0 and leads back
    to the start; every other step has reward -1.

    Args:
        ending: "restart" as above, or "end".
        start, spread: The restart within ± `spread` of `start` in every number (Gymnasium's own start: 0 ±
            0.1).

    Example:
        >>> import gaussbell as gb
        >>> hanging = gb.environments.Acrobot().transition([0.0, 0.0, 0.0, 0.0], 1)
        >>> bool(abs(hanging).max() < 1e-6)
        True
    """

    discount: float = 0.99
    start: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    ending: str = "restart"
    spread: float = 0.0

    low = np.array([-np.pi, -np.pi, -TOP_SPEED_1, -TOP_SPEED_2])
    high = -low
    actions = DiscreteActions(3)
    task = Reach(within=100, length=500)
    num_actions = 3

    @property
    def episodic(self) -> "Acrobot":
        """As Gymnasium plays it: an episode ends, and starts within ± 0.1 of the start."""
        return dataclasses.replace(self, ending="end", spread=self.spread or 0.1)

    def __check_init__(self):
        check_ending(self.ending)
        if self.ending == "restart later":
            raise ValueError("ending='restart later': Acrobot restarts at once; give 'restart' or 'end'.")

    @property
    def is_stochastic(self) -> bool:
        return self.spread > 0

    def initial(self, rng: PRNGKeyArray | None = None) -> Float[Array, " 4"]:
        """The state that the goal leads to."""
        return near(self.start, self.spread, rng if self.spread > 0 else None)

    def move(self, state: Float[Array, " 4"], action: Int[Array, ""]) -> Float[Array, " 4"]:
        """Where the dynamics lead, before any restart."""
        y, torque = jnp.asarray(state), jnp.asarray(action) - 1.0
        k1 = _derivative(y, torque)
        k2 = _derivative(y + SECONDS / 2 * k1, torque)
        k3 = _derivative(y + SECONDS / 2 * k2, torque)
        k4 = _derivative(y + SECONDS * k3, torque)
        first, second, speed_1, speed_2 = y + SECONDS / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return jnp.stack(
            [
                wrap(first),
                wrap(second),
                jnp.clip(speed_1, -TOP_SPEED_1, TOP_SPEED_1),
                jnp.clip(speed_2, -TOP_SPEED_2, TOP_SPEED_2),
            ]
        )

    def is_up(self, state: Float[Array, " 4"]) -> Bool[Array, ""]:
        """Is the tip one link above the fixed joint?"""
        return -jnp.cos(state[0]) - jnp.cos(state[1] + state[0]) > 1.0

    def transition(
        self, state: Float[Array, " 4"], action: Int[Array, ""], rng: PRNGKeyArray | None = None
    ) -> Float[Array, " 4"]:
        """The next state: where the links swing, or the start once the tip is up."""
        moved = self.move(state, action)
        return moved if self.ending == "end" else jnp.where(self.is_up(moved), self.initial(rng), moved)

    def reward(
        self,
        state: Float[Array, " 4"],
        action: Int[Array, ""],
        next_state: Float[Array, " 4"] | None = None,
        rng: PRNGKeyArray | None = None,
    ) -> Float[Array, ""]:
        """0 for a step that brings the tip up, -1 for any other."""
        return jnp.where(self.is_up(self.move(state, action)), 0.0, -1.0)

    def terminal(self, state: Float[Array, " 4"], rng: PRNGKeyArray | None = None) -> Bool[Array, ""]:
        return jnp.asarray(self.ending == "end") & self.is_up(state)

    def observation(self, state: Float[Array, " 4"], rng: PRNGKeyArray | None = None) -> Float[Array, " 6"]:
        first, second, speed_1, speed_2 = state
        waves = [jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second)]
        return jnp.stack([*waves, speed_1, speed_2])

    def features(self, policy: Policy | None = None, *, q: bool = False) -> features.Features:
        """Sines and cosines of the angles and the scaled speeds, with the action for Q-factors."""
        high = np.array([1, 1, 1, 1, TOP_SPEED_1, TOP_SPEED_2, *[2] * q])
        low = np.array([-1, -1, -1, -1, -TOP_SPEED_1, -TOP_SPEED_2, *[0] * q])
        return features.Chain(features.Angles((0, 1)), features.Scale(low, high))


def _derivative(y: Float[Array, " 4"], torque: Float[Array, ""]) -> Float[Array, " 4"]:
    """The equations of motion."""
    first, second, speed_1, speed_2 = y
    cosine, sine = jnp.cos(second), jnp.sin(second)
    d1 = MASS * CENTRE**2 + MASS * (LENGTH**2 + CENTRE**2 + 2 * LENGTH * CENTRE * cosine) + 2 * INERTIA
    d2 = MASS * (CENTRE**2 + LENGTH * CENTRE * cosine) + INERTIA
    weight_2 = MASS * CENTRE * GRAVITY * jnp.cos(first + second - jnp.pi / 2)
    weight_1 = (
        -MASS * LENGTH * CENTRE * speed_2**2 * sine
        - 2 * MASS * LENGTH * CENTRE * speed_2 * speed_1 * sine
        + (MASS * CENTRE + MASS * LENGTH) * GRAVITY * jnp.cos(first - jnp.pi / 2)
        + weight_2
    )
    pull = torque + d2 / d1 * weight_1 - MASS * LENGTH * CENTRE * speed_1**2 * sine - weight_2
    acceleration_2 = pull / (MASS * CENTRE**2 + INERTIA - d2**2 / d1)
    acceleration_1 = -(d2 * acceleration_2 + weight_1) / d1
    return jnp.stack([speed_1, speed_2, acceleration_1, acceleration_2])
