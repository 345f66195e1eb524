"""Any optax optimiser on the complete gradient: what a deep-learning practitioner would try first."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gaussbell.optimise.problem import LeastSquaresProblem
from gaussbell.optimise.solvers.solver import Solver, State, StepInfo, vanishes


class FirstOrder(Solver):
    """x <- x + update, with the update that an optax optimiser makes of the gradient J'r.

    A baseline: first-order methods need thousands of steps where second-order ones need tens, since states
    and successors nearly cancel in a Bellman residual. `transform` is an `optax.GradientTransformation`, or
    anything with its `init` and `update`; gaussbell itself does not need optax. Each new transform compiles
    anew, so make it once.

    Example:
        >>> import gaussbell as gb
        >>> from typing import NamedTuple
        >>> class Descent(NamedTuple):  # optax.sgd(0.1), say
        ...     init: object = lambda params: ()
        ...     update: object = lambda gradient, state, params: (-0.1 * gradient, state)
        >>> solution = gb.least_squares(lambda x: x - 3.0, 0.0, solver=gb.FirstOrder(Descent()))
        >>> round(float(solution.params), 6)
        3.0
    """

    transform: Any = eqx.field(static=True)

    def __check_init__(self):
        if not callable(getattr(self.transform, "init", None)) or not callable(
            getattr(self.transform, "update", None)
        ):
            raise ValueError(
                f"transform={self.transform!r}: give an optax optimiser such as optax.adam(1e-3)."
            )

    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        at = problem.linearise(x)
        return State(x, at.loss, at, at.gradient(), self.transform.init(x))

    def step(self, problem: LeastSquaresProblem, state: State) -> tuple[State, StepInfo]:
        update, memory = self.transform.update(state.gradient, state.memory, state.x)
        there = problem.linearise(state.x + update)
        after = State(state.x + update, there.loss, there, there.gradient(), memory)
        info = StepInfo(
            step_norm=jnp.linalg.norm(update),
            damping=jnp.zeros(()),
            gain_ratio=(state.loss - after.loss) / -jnp.vdot(state.gradient, update),
            accepted=jnp.asarray(True),
            vanished=vanishes(update, state.x),
        )
        return after, info
