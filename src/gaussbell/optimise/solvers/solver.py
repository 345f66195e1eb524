"""What a method is: a state that is carried, a step, and what the step reports."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gaussbell.numerics.linalg import DampedSolve, LinearSolve
from gaussbell.optimise.problem import LeastSquaresProblem, Linearisation

MOST_TOGETHER = 2**22
"""Rows times parameters up to which several losses are computed at once."""


class State(eqx.Module):
    """What is carried from step to step: the iterate, its loss, derivatives there, a memory."""

    x: Float[Array, " n"]
    loss: Float[Array, ""]
    linearisation: Any
    """A Linearisation; None for methods that never look at all rows at once."""
    gradient: Float[Array, " n"]
    memory: Any = None


class StepInfo(NamedTuple):
    """What a step reports: its length, damping, gain ratio, whether it was taken, and whether it is nil."""

    step_norm: Float[Array, ""]
    damping: Float[Array, ""]
    gain_ratio: Float[Array, ""]
    accepted: Bool[Array, ""]
    vanished: Bool[Array, ""]


class Direction(NamedTuple):
    """A step to subtract, and the decrease of the loss that the method's model predicts for it."""

    step: Float[Array, " n"]
    predicted_decrease: Float[Array, ""]


class Solver(eqx.Module):
    """A method for least-squares problems; it knows one step, and `solve` repeats it."""

    @abc.abstractmethod
    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        """The state at the initial parameters."""

    @abc.abstractmethod
    def step(self, problem: LeastSquaresProblem, state: State) -> tuple[State, StepInfo]:
        """One step from `state`."""


class FixedStep(Solver):
    """A method that always takes its step: a derivative, a direction from it, and nothing else."""

    @abc.abstractmethod
    def linearise(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> Linearisation:
        """The residual with the derivative that this method uses."""

    @abc.abstractmethod
    def direction(self, state: State) -> Direction:
        """The step from `state`."""

    @property
    @abc.abstractmethod
    def reported_damping(self) -> Any:
        """The damping that the history shows."""

    def init(self, problem: LeastSquaresProblem, x: Float[Array, " n"]) -> State:
        linearisation = self.linearise(problem, x)
        return State(x, linearisation.loss, linearisation, linearisation.gradient())

    def step(self, problem: LeastSquaresProblem, state: State) -> tuple[State, StepInfo]:
        step, predicted = self.direction(state)
        after = self.init(problem, state.x - step)
        decrease = state.loss - after.loss
        info = StepInfo(
            step_norm=jnp.linalg.norm(step),
            damping=jnp.asarray(self.reported_damping, step.dtype),
            gain_ratio=decrease / predicted,
            accepted=jnp.asarray(True),
            vanished=vanishes(step, state.x),
        )
        return after, info


def losses(problem: LeastSquaresProblem, points: Float[Array, "k n"], num_rows: int) -> Float[Array, " k"]:
    """The losses at several points: all at once in a small problem, one after the other in a large one."""
    together = num_rows * points.shape[1] <= MOST_TOGETHER
    return jax.vmap(problem.loss)(points) if together else jax.lax.map(problem.loss, points)


def vanishes(step: Float[Array, " n"], x: Float[Array, " n"]) -> Bool[Array, ""]:
    """Is a step too small to change any parameter?"""
    eps = jnp.finfo(x.dtype).eps
    return jnp.all(jnp.abs(step) <= eps * (jnp.abs(x) + eps * jnp.linalg.norm(x)))


def check_space(space: Any) -> None:
    """Raise ValueError unless `space` is an object that computes damped steps."""
    if not isinstance(space, LinearSolve):
        raise ValueError(
            f"space={space!r}: give an object such as gaussbell.linalg.SampleSpace() or MatrixFree()."
        )


def solve_for(space: LinearSolve, at: Linearisation) -> DampedSolve:
    """The way to compute damped steps for the shape of this linearisation."""
    return space.for_shape(at.residual.shape[0], at.num_parameters)
