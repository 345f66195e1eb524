"""Mountain Car without an end: the paper's version of Gymnasium's MountainCar-v0."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gaussbell.environments.environment import Environment, check_ending
from gaussbell.environments.tasks import Reach
from gaussbell.networks import features
from gaussbell.processes.actions import DiscreteActions
from gaussbell.processes.policies import AlongVelocity, Policy

FORCE, GRAVITY, TOP_SPEED = 0.001, 0.0025, 0.07
LEFT, RIGHT = -1.2, 0.6


class MountainCar(Environment):
    """A car in a valley, position and velocity, pushed left (0), not at all (1) or right (2).

    The dynamics are those of MountainCar-v0. A step that would end beyond `goal` has reward 0 and leads
    back to the bottom of the valley at rest; every other step has reward -1. So the process never ends,
    as the paper's experiments need. States are sampled from the whole box, the goal region included.

    The paper leaves some of this open.

    Args:
        ending: "restart" as above, "restart later" (the car is seen beyond the goal first; the step from
            there has reward 0 and leads to the start) or "end" (the process is over beyond the goal).
        start, spread: The restart's position within ± `spread` of `start`, at rest (Gymnasium's own start:
            -0.5 ± 0.1).
        noise: The standard deviation of a random push added to the velocity.

    Example:
        >>> import gaussbell as gb
        >>> car = gb.environments.MountainCar()
        >>> state = car.sample_states(3, key=0)
        >>> state.shape, bool((car.scale(state) <= 1).all())
        ((3, 2), True)
    """

    discount: float = 0.99
    goal: float = 0.5
    start: tuple[float, float] = (-0.5, 0.0)
    ending: str = "restart"
    spread: float = 0.0
    noise: float = 0.0

    low = np.array([LEFT, -TOP_SPEED])
    high = np.array([RIGHT, TOP_SPEED])
    actions = DiscreteActions(3)
    task = Reach(within=110, length=200)
    num_actions = 3
    along_velocity = AlongVelocity()

    @property
    def episodic(self) -> "MountainCar":
        """As Gymnasium plays it: an episode ends, and starts within ± 0.1 of the start."""
        return dataclasses.replace(self, ending="end", spread=self.spread or 0.1)

    def __check_init__(self):
        check_ending(self.ending)

    @property
    def is_stochastic(self) -> bool:
        return self.noise > 0 or self.spread > 0

    def initial(self, rng: PRNGKeyArray | None = None) -> Float[Array, " 2"]:
        """The state that the goal leads to."""
        start = jnp.asarray(self.start)
        if rng is None or self.spread == 0:
            return start
        draw = jax.random.uniform(jax.random.fold_in(rng, 0), (), jnp.float32, -1, 1)
        return start.at[0].add(self.spread * draw)

    def move(
        self, state: Float[Array, " 2"], action: Int[Array, ""], rng: PRNGKeyArray | None = None
    ) -> Float[Array, " 2"]:
        """Where the dynamics lead, before any restart."""
        position, velocity = state
        velocity = velocity + (action - 1) * FORCE - GRAVITY * jnp.cos(3 * position)
        if self.noise > 0:
            assert rng is not None
            draw = jax.random.normal(jax.random.fold_in(rng, 1), (), jnp.float32)
            velocity = velocity + self.noise * draw
        velocity = jnp.clip(velocity, -TOP_SPEED, TOP_SPEED)
        position = jnp.clip(position + velocity, LEFT, RIGHT)
        stopped = (position == LEFT) & (velocity < 0)
        return jnp.stack([position, jnp.where(stopped, 0.0, velocity)])

    def transition(
        self, state: Float[Array, " 2"], action: Int[Array, ""], rng: PRNGKeyArray | None = None
    ) -> Float[Array, " 2"]:
        """The next state: where the car moves, or the bottom of the valley once it is beyond the goal."""
        moved = self.move(state, action, rng)
        if self.ending == "end":
            return moved
        return jnp.where(self._arrives(state, moved), self.initial(rng), moved)

    def reward(
        self,
        state: Float[Array, " 2"],
        action: Int[Array, ""],
        next_state: Float[Array, " 2"] | None = None,
        rng: PRNGKeyArray | None = None,
    ) -> Float[Array, ""]:
        """0 for a step beyond the goal, -1 for any other."""
        return jnp.where(self._arrives(state, self.move(state, action, rng)), 0.0, -1.0)

    def terminal(self, state: Float[Array, " 2"], rng: PRNGKeyArray | None = None) -> Bool[Array, ""]:
        return jnp.asarray(self.ending == "end") & (state[0] > self.goal)

    def features(self, policy: Policy | None = None, *, q: bool = False) -> features.Features:
        """The scaled state, waves of it, and what the policy does there.

        The value jumps where the car needs one swing more, along a curve that winds through the box; on
        one side of rest the policy pushes left, on the other right.
        """
        scaled = self.scaling(q=q)
        parts = [scaled, features.Chain(scaled, features.Fourier())]
        if policy is not None:
            parts.append(features.PolicyAction(policy, self.actions, self.width))
        return features.Concatenate(*parts)

    def _arrives(self, state: Float[Array, " 2"], moved: Float[Array, " 2"]) -> Bool[Array, ""]:
        return (state[0] if self.ending == "restart later" else moved[0]) > self.goal
