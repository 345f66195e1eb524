"""The choices of policy iteration as small objects, and the paper's Algorithm 2 made of them."""

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from gaussbell.control.replay import Fresh, Replay
from gaussbell.control.states import Uniform
from gaussbell.environments import tasks
from gaussbell.optimise.solvers import GaussNewton, LevenbergMarquardt, Solver


class Evaluation(eqx.Module):
    """How each policy is evaluated.

    Args:
        solver, max_steps: Of each fit.
        persistent: Whether a fit starts from the network of the sweep before, or transient, from fresh
            weights.
        tolerance: As in `evaluate`.
        epsilon: Of epsilon-soft evaluation: the probability that a later action is random. A policy that
            never fails has the same value everywhere, and the next one, greedy in a flat Q, may do anything;
            an epsilon-soft Q still tells safe from risky.
    """

    solver: Solver = LevenbergMarquardt()
    max_steps: int = 150
    persistent: bool = True
    tolerance: float | None = None
    epsilon: float = 0.4


class NotWorse(eqx.Module):
    """Keep a policy if its roll-outs are no worse than those of the one kept; else go back to that one.

    After `patience` rejections in a row the next sweep starts from fresh weights and keeps anything. `slack`:
    what share of the score may be lost, where few roll-outs say little and the way up leads down at times.
    """

    patience: int = 4
    slack: float = 0.0

    def accepts(self, score: float, kept: float) -> bool:
        return score >= kept - (self.slack * abs(kept) if np.isfinite(kept) else 0.0)


class Always(eqx.Module):
    """Go on with every policy, better or worse: Algorithm 2."""

    patience: int = 1

    def accepts(self, score: float, kept: float) -> bool:
        return True


class Recipe(NamedTuple):
    """The choices of policy iteration: data, evaluation, acceptance, and roll-outs after each sweep.

    Args:
        data: Replay or Fresh; `evaluation`.
        acceptance: NotWorse or Always.
        rollouts: How many after each sweep.
        stops: Whether a confirmed policy ends the iteration.
        attempt: After how many sweeps an unsolved run starts over, with fresh weights and none of the data:
            what goes wrong early lives on in what was visited, and most runs need few sweeps.
    """

    data: Any = Replay()
    evaluation: Evaluation = Evaluation()
    acceptance: Any = NotWorse()
    rollouts: int = 2
    stops: bool = True
    attempt: int | None = None


def algorithm_2(
    samples: int = 181,
    *,
    step_size: float = 0.01,
    damping: float = 1e-5,
    evaluation_steps: int = 2500,
    persistent: bool = True,
    redraw: bool = False,
    rollouts: int = 10,
) -> Recipe:
    """Algorithm 2 of the paper to the letter, as a recipe.

    States drawn uniformly, each with one random action; a fit of at most `evaluation_steps` Gauss-Newton
    steps with a fixed step size and damping, down to an NMSBE of 1e-5; the greedy policy, good or bad.
    `redraw`: new states every sweep, as the paper's text says, or the same ones throughout, as its algorithm
    says. For its weights, uniform in [-1, 1], and its inputs as they are, give as network the function
    `lambda key: FeatureNetwork(features.Identity(), MLP((5, 10, 10, 1), key=key))`.
    """
    return Recipe(
        Fresh(Uniform(samples), every_action=False, once=not redraw),
        Evaluation(GaussNewton(step_size, damping), evaluation_steps, persistent, 1e-5, epsilon=0.0),
        Always(),
        rollouts,
        stops=False,
    )


def default_recipe(task: tasks.Task) -> Recipe:
    """The recipe for a task.

    Where the aim is to go on: a large epsilon, few roll-outs, and starting over after ten sweeps. Where it is
    to get somewhere: a small epsilon, more roll-outs, transitions along their paths, which tell how far away
    the goal is, and some forgiveness for a worse score.
    """
    if isinstance(task, tasks.Survive):
        return Recipe(attempt=10)
    data = Replay(more=20, visited=600, paths=700)
    return Recipe(data, Evaluation(epsilon=0.1), NotWorse(slack=0.3), rollouts=10)
