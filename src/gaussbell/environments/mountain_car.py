"""Mountain Car without an end: the paper's version of Gymnasium's MountainCar-v0."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gaussbell.precision import as_key, in_double

FORCE, GRAVITY, TOP_SPEED = 0.001, 0.0025, 0.07
LEFT, RIGHT = -1.2, 0.6


class MountainCar(eqx.Module):
    """A car in a valley, position and velocity, pushed left (0), not at all (1) or right (2).

    The dynamics are those of MountainCar-v0. A step that would end beyond `goal` has reward 0 and leads
    back to the bottom of the valley at rest; every other step has reward -1. So the process never ends,
    as the paper's experiments need. States are sampled from the whole box, the goal region included.

    >>> import gaussbell as gb
    >>> car = gb.environments.MountainCar()
    >>> state = car.sample_states(3, key=0)
    >>> state.shape, bool((car.scale(state) <= 1).all())
    ((3, 2), True)
    """

    discount: float = 0.99
    goal: float = 0.5
    start: tuple[float, float] = (-0.5, 0.0)

    low = np.array([LEFT, -TOP_SPEED])
    high = np.array([RIGHT, TOP_SPEED])
    num_actions = 3

    def initial(self) -> Float[Array, " 2"]:
        """The state that the goal leads to."""
        return jnp.asarray(self.start)

    def move(self, state: Float[Array, " 2"], action: Int[Array, ""]) -> Float[Array, " 2"]:
        """Where the dynamics lead, before any restart."""
        position, velocity = state
        velocity = velocity + (action - 1) * FORCE - GRAVITY * jnp.cos(3 * position)
        velocity = jnp.clip(velocity, -TOP_SPEED, TOP_SPEED)
        position = jnp.clip(position + velocity, LEFT, RIGHT)
        stopped = (position == LEFT) & (velocity < 0)
        return jnp.stack([position, jnp.where(stopped, 0.0, velocity)])

    def transition(self, state: Float[Array, " 2"], action: Int[Array, ""]) -> Float[Array, " 2"]:
        """The next state: where the car moves, or the bottom of the valley once it is beyond the goal."""
        moved = self.move(state, action)
        return jnp.where(moved[0] > self.goal, self.initial(), moved)

    def reward(self, state: Float[Array, " 2"], action: Int[Array, ""]) -> Float[Array, ""]:
        """0 for a step beyond the goal, -1 for any other."""
        return jnp.where(self.move(state, action)[0] > self.goal, 0.0, -1.0)

    @in_double
    def sample_states(self, count: int, *, key: PRNGKeyArray | int) -> Float[Array, "count 2"]:
        """States drawn uniformly from the box."""
        share = jax.random.uniform(as_key(key), (count, 2), jnp.float32).astype(jnp.float64)
        return jnp.asarray(self.low) + share * (self.high - self.low)

    @in_double
    def scale(self, state: Float[Array, "*batch 2"]) -> Float[Array, "*batch 2"]:
        """States as inputs of a network, in [-1, 1]."""
        return 2 * (jnp.asarray(state, jnp.float64) - self.low) / (self.high - self.low) - 1

    def along_velocity(self, state: Float[Array, " 2"]) -> Int[Array, ""]:
        """The paper's policy: push along the velocity, to the right at rest."""
        return jnp.where(state[1] >= 0, 2, 0)
