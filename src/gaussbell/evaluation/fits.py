"""A fit that is validated by returns, and what watches over it: the time, and whoever wants to know."""

import sys
import time
from typing import Any

import numpy as np

from gaussbell.data.transitions import Transitions
from gaussbell.evaluation.experience import BoxExperience, EpisodeExperience
from gaussbell.evaluation.from_data import pose
from gaussbell.numerics.arguments import check_positive
from gaussbell.numerics.interrupts import Interrupts
from gaussbell.optimise.solution import Solution
from gaussbell.optimise.solve import Solving
from gaussbell.optimise.solvers import LevenbergMarquardt

PATIENCE = 200
"""Solver steps without progress after which a fit ends."""

Experience = BoxExperience | EpisodeExperience


class Watch:
    """Tells what goes on, when the time is up, and that Ctrl-C was pressed."""

    def __init__(self, timeout: float | None, progress: bool | None, budget: int):
        if timeout is not None:
            check_positive("timeout", timeout)
        self._end = None if timeout is None else time.monotonic() + timeout
        self._shown = sys.stderr.isatty() if progress is None else progress
        self._budget, self._last = budget, 0.0
        self._interrupts = Interrupts()

    @property
    def seconds_left(self) -> float | None:
        """Until the time runs out, at least a moment."""
        return None if self._end is None else max(self._end - time.monotonic(), 1e-3)

    @property
    def is_over(self) -> bool:
        """Has the time run out?"""
        return self._end is not None and time.monotonic() > self._end

    def simulated(self, steps: int) -> bool:
        """Tell how many steps were simulated; is the time up?"""
        self._tell(f"{steps:,} of at most {self._budget:,} steps simulated")
        return self.is_over

    def fitted(self, n_step: Any, error: float) -> None:
        """Tell how a fit does."""
        self._tell(f"fitting transitions with n_step {n_step}, validation error {error:.4g}")

    def _tell(self, text: str) -> None:
        self._interrupts.raise_if_heard()
        if self._shown and time.monotonic() - self._last > 0.2:
            self._last = time.monotonic()
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "Watch":
        self._interrupts.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._interrupts.__exit__(*failure)
        if self._shown:  # leave a clean line
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class ValidatedFit:
    """A fit that is validated by returns, and that can go on later.

    Steps that lower the loss on the samples further may well raise the error of the value between them; where
    there are fewer samples than parameters they always do in the end.
    """

    def __init__(
        self,
        n_step: Any,
        data: Transitions,
        network: Any,
        solver: Any,
        experience: Experience,
        watch: Watch,
        on_progress: Any,
    ):
        self.n_step, self.data = n_step, data
        self._experience, self._watch = experience, watch
        self.error = np.inf
        posed = pose(network, self.data, solver=solver or LevenbergMarquardt(), scale_output=True)
        self._solving = Solving(
            posed.problem,
            posed.start,
            posed.solver,
            tolerance=posed.tolerance,
            patience=PATIENCE,
            on_progress=on_progress,
            validation=self._validate,
        )

    def _validate(self, network: Any) -> float:
        error = self._experience.validation_error(network)
        self.error = min(self.error, error)
        self._watch.fitted(self.n_step, error)
        return error

    def go_on(self, max_steps: int) -> None:
        """Take further steps, up to `max_steps` in all, as long as the validation error keeps falling."""
        self._solving.run_to(max_steps, stop=lambda: self._watch.is_over)
        self.error = self._experience.validation_error(self.solution.network)

    @property
    def solution(self) -> Solution:
        """The best network so far."""
        return self._solving.solution()
