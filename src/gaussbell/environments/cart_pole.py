"""Cart Pole without an end: the paper's version of Gymnasium's CartPole-v1."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gaussbell.environments.environment import Environment, check_ending, near
from gaussbell.environments.tasks import Survive
from gaussbell.networks import features
from gaussbell.processes.actions import DiscreteActions
from gaussbell.processes.policies import Policy

GRAVITY, CART_MASS, POLE_MASS, HALF_LENGTH = 9.8, 1.0, 0.1, 0.5
FORCE, SECONDS = 10.0, 0.02
TOTAL_MASS, POLE_MOMENT = CART_MASS + POLE_MASS, POLE_MASS * HALF_LENGTH
FARTHEST, STEEPEST = 2.4, 12 * math.pi / 180


class CartPole(Environment):
    """A pole on a cart that is pushed left (0) or right (1): position, speed, angle and angular speed.

    The dynamics are those of CartPole-v1. A step into failure (position beyond ±2.4 or angle beyond ±12
    degrees) has reward -1 and leads back to the start; every other step has reward 0. Speeds have no bounds
    in Gymnasium; states are sampled with speeds up to ±3 and ±3.5.

    The start itself is never among uniform samples, and a network can hide there: values of zero everywhere
    and a spike at the start make a small Bellman error. Use several steps, or add the start to the samples.

    Args:
        ending: "restart" as above, "restart later" (the failed state is seen first; the step from there leads
            to the start) or "end" (failure ends the process).
        start, spread: The restart within ± `spread` of `start` in every number (Gymnasium's own start: 0 ±
            0.05).

    Example:
        >>> import gaussbell as gb
        >>> pole = gb.environments.CartPole()
        >>> float(pole.reward([2.39, 3.0, 0.0, 0.0], 1)), pole.transition([2.39, 3.0, 0.0, 0.0], 1).tolist()
        (-1.0, [0.0, 0.0, 0.0, 0.0])
    """

    discount: float = 0.99
    start: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    ending: str = "restart"
    spread: float = 0.0

    low = np.array([-FARTHEST, -3.0, -STEEPEST, -3.5])
    high = -low
    actions = DiscreteActions(2)
    task = Survive(500, reach=(1.0, 0.5, 0.1, 0.5), confirmations=2, lasting=2000)
    num_actions = 2

    @property
    def episodic(self) -> "CartPole":
        """As Gymnasium plays it: an episode ends, and starts within ± 0.05 of the start."""
        return dataclasses.replace(self, ending="end", spread=self.spread or 0.05)

    def __check_init__(self):
        check_ending(self.ending)

    @property
    def is_stochastic(self) -> bool:
        return self.spread > 0

    def initial(self, rng: PRNGKeyArray | None = None) -> Float[Array, " 4"]:
        """The state that failure leads to."""
        return near(self.start, self.spread, rng if self.spread > 0 else None)

    def move(self, state: Float[Array, " 4"], action: Int[Array, ""]) -> Float[Array, " 4"]:
        """Where the dynamics lead, before any restart."""
        position, speed, angle, turning = state
        force = jnp.where(action == 1, FORCE, -FORCE)
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        push = (force + POLE_MOMENT * turning**2 * sine) / TOTAL_MASS
        inertia = HALF_LENGTH * (4 / 3 - POLE_MASS * cosine**2 / TOTAL_MASS)
        swing = (GRAVITY * sine - cosine * push) / inertia
        acceleration = push - POLE_MOMENT * swing * cosine / TOTAL_MASS
        return jnp.stack(
            [
                position + SECONDS * speed,
                speed + SECONDS * acceleration,
                angle + SECONDS * turning,
                turning + SECONDS * swing,
            ]
        )

    def features(self, policy: Policy | None = None, *, q: bool = False) -> features.Features:
        """The scaled state, and what the policy does there: its value has a kink where that changes."""
        if policy is None:
            return self.scaling(q=q)
        return features.Concatenate(
            self.scaling(q=q), features.PolicyAction(policy, self.actions, self.width)
        )

    def failed(self, state: Float[Array, " 4"]) -> Bool[Array, ""]:
        """Has the cart left the track, or the pole fallen?"""
        return (jnp.abs(state[0]) > FARTHEST) | (jnp.abs(state[2]) > STEEPEST)

    def transition(
        self, state: Float[Array, " 4"], action: Int[Array, ""], rng: PRNGKeyArray | None = None
    ) -> Float[Array, " 4"]:
        """The next state: where the cart moves, or the start after a failure."""
        moved = self.move(state, action)
        if self.ending == "end":
            return moved
        over = self.failed(jnp.asarray(state) if self.ending == "restart later" else moved)
        return jnp.where(over, self.initial(rng), moved)

    def reward(
        self,
        state: Float[Array, " 4"],
        action: Int[Array, ""],
        next_state: Float[Array, " 4"] | None = None,
        rng: PRNGKeyArray | None = None,
    ) -> Float[Array, ""]:
        """-1 for a step into failure, 0 for any other."""
        state = jnp.asarray(state)
        fails = self.failed(self.move(state, action))
        if self.ending == "restart later":
            fails = fails & ~self.failed(state)  # from a failed state the step leads to the start
        return jnp.where(fails, -1.0, 0.0)

    def terminal(self, state: Float[Array, " 4"], rng: PRNGKeyArray | None = None) -> Bool[Array, ""]:
        return jnp.asarray(self.ending == "end") & self.failed(state)
