"""What policy iteration returns: the best policy, how it came about, and what it cost."""

import dataclasses
import enum
import traceback
from typing import Any, NamedTuple

import numpy as np

from gaussbell.diagnostics.assessment import Assessment
from gaussbell.processes.policies import Greedy


class PolicyStatus(enum.Enum):
    """How policy iteration ended; the value is a sentence for people."""

    SOLVED = "Roll-outs met the task, and fresh episodes confirmed it."
    OUT_OF_SWEEPS = (
        "The sweeps ran out before the task was met and confirmed; the best policy seen is returned. Allow "
        "more with sweeps=..., or try another key."
    )
    INTERRUPTED = "The iteration was interrupted; the best policy seen is returned."
    ENVIRONMENT_FAILED = (
        "The environment raised an error or returned numbers that are not finite; the best policy seen until "
        "then is returned, and .error says what happened."
    )

    @property
    def succeeded(self) -> bool:
        """Is the task solved?"""
        return self is PolicyStatus.SOLVED

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


class Sweep(NamedTuple):
    """One sweep: an evaluation, an improvement, and the roll-outs of the new policy.

    `score` is the task's own, averaged; `returns` and `steps` are mean, smallest and largest over the
    roll-outs (undiscounted). `msbe` is that of the fit; `low` and `high` the range of Q on its data;
    `correlation` that of Q with what the roll-outs then earned from the same pairs (NaN where that was the
    same everywhere), `error` their root mean squared difference. `accepted`, whether the policy was kept;
    `redrawn`, whether the next sweep starts from fresh weights; `transitions`, all simulated steps so far.
    """

    score: float
    returns: tuple[float, float, float]
    steps: tuple[float, float, float]
    msbe: float
    solver_steps: int
    low: float
    high: float
    correlation: float
    error: float
    accepted: bool
    redrawn: bool
    transitions: int


@dataclasses.dataclass(frozen=True)
class PolicySolution:
    """The best policy seen, the network it is greedy in, and how the iteration went.

    `policy(state)` is an action, for Gymnasium's `step` too. `network` holds Q-factors of the policy
    *before*, whose greedy policy this is: to know the value of `policy` itself evaluate it once more
    (`gaussbell.evaluate_policy(env, solution.policy, q=True)`). `score` is its mean over the last roll-outs,
    `confirmed` the scores of the fresh episodes that were to confirm it. `history` has one entry a sweep;
    `transitions` counts every simulated step by its purpose: training, roll-outs, confirmation. `assessment`
    judges Q as a value. If the environment failed, `error` says how and `failure` is the exception itself.
    """

    policy: Greedy
    network: Any
    status: PolicyStatus
    score: float
    confirmed: np.ndarray
    history: tuple[Sweep, ...]
    transitions: dict[str, int]
    assessment: Assessment | None = None
    error: str = ""
    failure: BaseException | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against Q as a value, in sentences."""
        return () if self.assessment is None else self.assessment.warnings

    def to_dict(self) -> dict[str, Any]:
        """How the iteration went, as plain data: all but policy and network."""
        return {
            "status": self.status.name,
            "succeeded": self.succeeded,
            "score": self.score,
            "confirmed": self.confirmed,
            "history": [sweep._asdict() for sweep in self.history],
            "transitions": self.transitions,
            "warnings": list(self.warnings),
            "assessment": None if self.assessment is None else self.assessment.to_dict(),
            "error": self.error,
            "traceback": [] if self.failure is None else traceback.format_exception(self.failure),
        }

    @property
    def sweeps(self) -> int:
        """How many sweeps there were."""
        return len(self.history)

    @property
    def succeeded(self) -> bool:
        """Is the task solved?"""
        return self.status.succeeded

    def column(self, name: str) -> np.ndarray:
        """One entry of the history over all sweeps; mean, smallest and largest side by side."""
        return np.array([getattr(sweep, name) for sweep in self.history])

    def __str__(self) -> str:
        total = sum(self.transitions.values())
        spent = ", ".join(f"{count:,} {purpose}" for purpose, count in self.transitions.items())
        text = f"{self.status} after {self.sweeps} sweeps and {total:,} transitions ({spent}); score "
        return " ".join([f"{text}{self.score:.4g}.", self.status.value, self.error, *self.warnings]).strip()


class IterationInterrupted(KeyboardInterrupt):
    """Raised when Ctrl-C stops policy iteration; `solution` holds the best policy seen."""

    def __init__(self, solution: PolicySolution):
        self.solution = solution
        super().__init__(str(solution))
