"""What a solve returns: parameters, a status, and a history of every step."""

import enum
from typing import Any

import equinox as eqx
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int


class Status(enum.Enum):
    """How a solve ended; the value is a sentence for people."""

    RUNNING = "The solve is still under way."
    CONVERGED = "The loss reached the tolerance."
    STATIONARY = (
        "No step lowers the loss any further: a critical point, to rounding. If the loss is too large "
        "here, try other initial weights or a larger network."
    )
    STAGNATED = (
        "The loss has stopped improving, away from any critical point. Try gaussbell.LevenbergMarquardt, "
        "another step size, or other initial weights; patience=... waits longer."
    )
    OUT_OF_STEPS = "The steps ran out before the tolerance was reached. Allow more with max_steps=..."
    DIVERGED = (
        "The loss grew without bound or a step was not finite; the best parameters seen are returned. Try "
        "gaussbell.LevenbergMarquardt, a smaller step size, or more damping."
    )
    NOT_FINITE_AT_START = (
        "The residual or its derivative is not finite at the initial parameters, so no step was taken. Check "
        "what the network, or the residual, returns there."
    )
    INTERRUPTED = "The solve was interrupted; the best parameters seen are returned."
    OUT_OF_TIME = "The time ran out; the best parameters seen are returned. Allow more with timeout=..."
    EARLY_STOPPED = (
        "The error on held-out data stopped falling; the parameters with the smallest one are returned."
    )

    @property
    def code(self) -> int:
        """The number that stands for this status inside compiled code."""
        return list(Status).index(self)

    @property
    def succeeded(self) -> bool:
        """Did the solve reach its tolerance, or a point that no step improves?"""
        return self in (Status.CONVERGED, Status.STATIONARY, Status.EARLY_STOPPED)

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


class SolveFailed(RuntimeError):
    """Raised by `Solution.raise_if_failed`; carries the solution."""

    def __init__(self, solution: "Solution"):
        self.solution = solution
        super().__init__(str(solution))


class SolveInterrupted(KeyboardInterrupt):
    """Raised when Ctrl-C stops a solve; `solution` holds the best parameters seen."""

    def __init__(self, solution: "Solution"):
        self.solution = solution
        super().__init__(str(solution))


class History(eqx.Module):
    """One entry a step. Entry 0 is the start; entry k is the iterate after step k and the step to it.

    Under vmap or jit the arrays keep their full length and end in NaN. `parameters` is there only if it
    was asked for.
    """

    loss: Float[Array, " T"]
    gradient_norm: Float[Array, " T"]
    step_norm: Float[Array, " T"]
    damping: Float[Array, " T"]
    gain_ratio: Float[Array, " T"]
    accepted: Bool[Array, " T"]
    parameters: Float[Array, "T n"] | None = None

    @property
    def msbe(self) -> Float[Array, " T"]:
        """The loss by its name in policy evaluation: the NMSBE."""
        return self.loss

    @property
    def columns(self) -> dict[str, Array]:
        """What a record keeps: every entry but the parameters, by its name."""
        names = ("msbe", "gradient_norm", "step_norm", "damping", "gain_ratio", "accepted")
        return {name: getattr(self, name) for name in names}


class Solution(eqx.Module):
    """The best parameters seen, their loss, and how the solve went.

    `params` (or `network`) come in the precision they were given in; `loss` (or `msbe`), half the sum of
    squares, was measured in float64. `steps` counts steps tried, rejected ones included. Under vmap every
    field has a leading axis: `solution.loss.argmin()` is the best of many. `assessment`, from `evaluate`
    outside jit and vmap, holds what the data say about the fit; `warnings` are its reasons against the value.
    """

    params: Any
    loss: Float[Array | np.generic, ""]
    status_code: Int[Array | np.generic, ""]
    steps: Int[Array | np.generic, ""]
    history: History
    assessment: Any = eqx.field(default=None, kw_only=True)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against the values of a fit, however small its loss, in sentences."""
        return () if self.assessment is None else self.assessment.warnings

    @property
    def network(self) -> Any:
        """The parameters by their name in policy evaluation: the fitted network."""
        return self.params

    @property
    def msbe(self) -> Float[Array | np.generic, ""]:
        """The loss by its name in policy evaluation: the NMSBE."""
        return self.loss

    @property
    def status(self) -> Any:
        """How the solve ended: a `Status`, or an array of them for solves under vmap."""
        if isinstance(self.status_code, Tracer):
            raise ValueError("status: read it outside jit and vmap, or use status_code inside.")
        members = np.array(list(Status), dtype=object)
        return members[np.asarray(self.status_code)]

    @property
    def succeeded(self) -> Any:
        """Whether the solve succeeded: a truth value, or an array of them for solves under vmap."""
        return np.vectorize(lambda status: status.succeeded, otypes=[bool])(self.status)[()]

    def to_dict(self) -> dict[str, Any]:
        """How the solve went, as plain data: all but the parameters."""
        return {
            "status": self.status.name,
            "message": self.status.value,
            "succeeded": bool(self.succeeded),
            "loss": float(self.loss),
            "steps": int(self.steps),
            "warnings": list(self.warnings),
            "assessment": None if self.assessment is None else self.assessment.to_dict(),
            "history": self.history.columns,
        }

    def raise_if_failed(self) -> "Solution":
        """This solution, or `SolveFailed` if any solve in it did not succeed."""
        if not np.all(self.succeeded):
            raise SolveFailed(self)
        return self

    def __str__(self) -> str:
        status = self.status
        if isinstance(status, Status):
            ended = f"{status} after {int(self.steps)} steps, loss {float(self.loss):.3g}. {status.value}"
            return ended if self.assessment is None else f"{ended} Assessment: {self.assessment}"
        names, counts = np.unique([str(s) for s in status.ravel()], return_counts=True)
        ended = ", ".join(f"{n} {name}" for name, n in zip(names, counts, strict=True))
        return f"{status.size} solves: {ended}; median loss {np.median(np.asarray(self.loss)):.3g}."
