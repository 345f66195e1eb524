"""Pendulum: swing up and stay up, with a torque from a box of actions."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from gaussbell.environments.environment import Environment
from gaussbell.networks import features
from gaussbell.processes.actions import BoxActions
from gaussbell.processes.policies import Policy

MASS, LENGTH, SECONDS, TOP_SPEED, TOP_TORQUE = 1.0, 1.0, 0.05, 8.0, 2.0


class Pendulum(Environment):
    """Angle from upright in [-pi, pi] and speed; the action is a torque, as a share, -1 to 1, of its limit.

    The dynamics and rewards, -(angle^2 + 0.1 speed^2 + 0.001 torque^2), are those of Pendulum-v1, which shows
    cosine, sine and speed; the process never ends.

    Args:
        gravity: The acceleration of free fall.

    >>> import gaussbell as gb
    >>> pendulum = gb.environments.Pendulum()
    >>> [round(float(number), 4) for number in pendulum.transition([0.0, 1.0], [0.0])]
    [0.05, 1.0]
    """

    discount: float = 0.99
    gravity: float = 10.0

    low = np.array([-np.pi, -TOP_SPEED])
    high = -low
    actions = BoxActions([-1.0], [1.0])

    def initial(self, rng: PRNGKeyArray | None = None) -> Float[Array, " 2"]:
        """Any angle and a speed up to ±1, or hanging at rest without a key."""
        if rng is None:
            return jnp.array([jnp.pi, 0.0])
        return self.sample_states(1, key=rng)[0] * jnp.array([1.0, 1 / TOP_SPEED])

    def transition(
        self, state: Float[Array, " 2"], action: Float[Array, " 1"], rng: PRNGKeyArray | None = None
    ) -> Float[Array, " 2"]:
        angle, speed = state
        pull = 3 * self.gravity / (2 * LENGTH) * jnp.sin(angle)
        push = 3.0 / (MASS * LENGTH**2) * self.torque(action)
        speed = jnp.clip(speed + (pull + push) * SECONDS, -TOP_SPEED, TOP_SPEED)
        return jnp.stack([wrap(angle + speed * SECONDS), speed])

    def reward(
        self,
        state: Float[Array, " 2"],
        action: Float[Array, " 1"],
        next_state: Float[Array, " 2"] | None = None,
        rng: PRNGKeyArray | None = None,
    ) -> Float[Array, ""]:
        angle, speed = state
        return -(wrap(angle) ** 2 + 0.1 * speed**2 + 0.001 * self.torque(action) ** 2)

    def torque(self, action: Float[Array, " 1"]) -> Float[Array, ""]:
        """The torque that an action stands for."""
        return TOP_TORQUE * jnp.clip(jnp.asarray(action)[0], -1, 1)

    def observation(self, state: Float[Array, " 2"], rng: PRNGKeyArray | None = None) -> Float[Array, " 3"]:
        angle, speed = state
        return jnp.stack([jnp.cos(angle), jnp.sin(angle), speed])

    def features(self, policy: Policy | None = None, *, q: bool = False) -> features.Features:
        """Sine and cosine of the angle and the scaled speed, with the action for Q-factors."""
        scale = features.Scale([-1, -1, -TOP_SPEED, *[-1] * q], [1, 1, TOP_SPEED, *[1] * q])
        return features.Chain(features.Angles((0,)), scale)


def wrap(angle: Float[Array, ""]) -> Float[Array, ""]:
    """The same angle in [-pi, pi)."""
    return jnp.mod(angle + jnp.pi, 2 * jnp.pi) - jnp.pi
