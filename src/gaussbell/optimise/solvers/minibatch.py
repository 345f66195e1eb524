"""Gauss-Newton on minibatches, with the last step as a guide for the next."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gaussbell.numerics.arguments import check_positive, check_share, read_count
from gaussbell.numerics.linalg import ByShape, LinearSolve
from gaussbell.optimise.problem import LeastSquaresProblem
from gaussbell.optimise.solvers.solver import Solver, State, StepInfo, check_space, solve_for

GROW, SHRINK, STIFFEN = 1.2, 0.7, 4.0
"""A pass that lowered the loss lets the step size grow; any other shrinks it and multiplies the damping."""

LEAST_STEP_SIZE, LARGEST_DAMPING = 1e-6, 1e6


class Pass(NamedTuple):
    """What is kept between passes over the data."""

    key: Key[Array, ""]
    step_size: Float[Array, ""]
    damping: Float[Array, ""]
    last_step: Float[Array, " n"]


class Minibatch(Solver):
    """One step is one pass over the data in random order, `batch_size` residuals at a time. On each batch,

        d <- argmin over d of |r - J d|^2 + c |d - momentum d_last|^2,     x <- x - step_size d.

    r and J are those of the batch, so systems are no larger than `batch_size`, however many data there are.
    What a batch does not say about a direction is taken over from the batches before (the SPRING method of
    Goldshlager, Abrahamsen and Lin, 2024); plain averaging would forget it. c = `damping` times the mean
    square norm of a row of J. A pass that lowers the loss of all rows lets the step size grow; any other is
    undone, the step size cut, the damping raised, and the guide forgotten. So the loss never rises.

    For data too large for one step, and to get near a solution soon; the end phase is linear at best. It
    needs rows that stand alone, which samples do and the states of a finite chain do not.

    Args:
        batch_size: Residuals of a batch.
        momentum: How much of the last step guides the next, from 0 to 1.
        damping: In units of the mean square norm of a row of J.
        step_size: The first step size.
        seed: Of the order of the batches.
        space: Where a batch's system is solved.

    Example:
        >>> import gaussbell as gb
        >>> gb.Minibatch(batch_size=64).batch_size
        64
    """

    batch_size: int = eqx.field(static=True, default=512)
    momentum: float | Float[Array, ""] = 0.9
    damping: float | Float[Array, ""] = 1e-3
    step_size: float | Float[Array, ""] = 0.1
    seed: int = eqx.field(static=True, default=0)
    space: LinearSolve = ByShape()

    def __check_init__(self):
        read_count("batch_size", self.batch_size, 1)
        read_count("seed", self.seed, 0)
        check_share("momentum", self.momentum)
        check_positive("damping", self.damping)
        check_positive("step_size", self.step_size)
        check_space(self.space)

    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        loss, gradient = _loss_and_gradient(problem, x, self.batch_size)
        memory = Pass(
            key=jax.random.wrap_key_data(jnp.array([0, self.seed], jnp.uint32)),
            step_size=jnp.asarray(self.step_size, x.dtype),
            damping=jnp.asarray(self.damping, x.dtype),
            last_step=jnp.zeros_like(x),
        )
        return State(x, loss, None, gradient, memory)

    def step(self, problem: LeastSquaresProblem, state: State) -> tuple[State, StepInfo]:
        memory, size = state.memory, problem.num_rows
        height = min(self.batch_size, size)
        key, shuffle = jax.random.split(memory.key)
        # A permutation, in words that JAX also compiles for programs that have 64-bit types off.
        random = jax.random.bits(shuffle, (size,), jnp.uint32)
        order = jax.lax.sort_key_val(random, jnp.arange(size, dtype=jnp.int32))[1]
        batches = order[: size // height * height].reshape(-1, height)

        def improve(carry, batch):
            x, last = carry
            d = self._batch_step(problem.take(batch), x, self.momentum * last, memory.damping)
            return (x - memory.step_size * d, d), None

        (x, last), _ = jax.lax.scan(improve, (state.x, memory.last_step), batches)
        loss, gradient = _loss_and_gradient(problem, x, self.batch_size)
        accepted = loss < state.loss

        def keep(new, old):
            return jnp.where(accepted, new, old)

        after = State(
            keep(x, state.x),
            keep(loss, state.loss),
            None,
            keep(gradient, state.gradient),
            Pass(
                key=key,
                step_size=jnp.clip(memory.step_size * keep(GROW, SHRINK), LEAST_STEP_SIZE, 1.0),
                damping=jnp.minimum(memory.damping * keep(1.0, STIFFEN), LARGEST_DAMPING),
                last_step=keep(last, 0.0),
            ),
        )
        info = StepInfo(
            step_norm=jnp.linalg.norm(x - state.x),
            damping=memory.damping,
            gain_ratio=jnp.asarray(jnp.nan, x.dtype),
            accepted=accepted,
            vanished=jnp.asarray(False),
        )
        return after, info

    def _batch_step(
        self,
        problem: LeastSquaresProblem,
        x: Float[Array, " n"],
        guide: Float[Array, " n"],
        damping: Float[Array, ""],
    ) -> Float[Array, " n"]:
        at = problem.linearise(x)
        space = solve_for(self.space, at)
        system = space.system(at)
        damping = damping * space.square_norm(system) / len(at.residual)
        factor = space.factorise(system, damping)
        return guide + space.step(at, factor, at.residual - at.jvp(guide))


def _loss_and_gradient(
    problem: LeastSquaresProblem, x: Float[Array, " n"], rows: int
) -> tuple[Float[Array, ""], Float[Array, " n"]]:
    """The loss of all rows and its gradient, block by block."""
    size = problem.num_rows
    height = min(rows, size)
    whole = size // height * height

    def add(total, block):
        at = problem.take(block).linearise(x)
        # A part of the problem stands for all of it: its loss is an estimate of the whole.
        share = len(block) / size
        return jax.tree.map(lambda sum_, part: sum_ + share * part, total, (at.loss, at.gradient())), None

    blocks = jnp.arange(whole, dtype=jnp.int32).reshape(-1, height)
    total = jax.lax.scan(add, (jnp.zeros((), x.dtype), jnp.zeros_like(x)), blocks)[0]
    if whole == size:
        return total
    return add(total, jnp.arange(whole, size, dtype=jnp.int32))[0]
