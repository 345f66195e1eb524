"""Q-factors beside what roll-outs earned, and beside what the rewards can add up to."""

from typing import Any, NamedTuple

import numpy as np

from gaussbell.control.experience import Experience
from gaussbell.data.logs import Log
from gaussbell.diagnostics.assessment import Assessment, judge
from gaussbell.diagnostics.checks import Checks, out_of_range
from gaussbell.networks.value_function import num_parameters, values_at
from gaussbell.processes.policies import Greedy, choose_all

COMPARED = 256
"""Visited pairs at which Q is compared with what the roll-outs earned."""


class Earned(NamedTuple):
    """Q at visited pairs beside what the roll-outs earned from there."""

    correlation: float
    error: float
    at_starts: np.ndarray


def compare(network: Any, policy: Greedy, seen: Experience, log: Log, key: Any) -> Earned:
    """Q of the fit beside the discounted rewards of the roll-outs; only at their end the network is asked."""
    played = seen.after_the_end(log, key)
    last = np.append(log.episode[1:] != log.episode[:-1], True)
    reached = played.next_state[last]
    ahead = np.where(played.terminated[last], 0.0, values_at(network, _pairs(policy, reached)))
    earned, following, episode = np.empty(len(log)), 0.0, len(ahead)
    for step in range(len(log) - 1, -1, -1):
        if last[step]:
            episode -= 1
            following = ahead[episode]
        following = earned[step] = log.reward[step] + seen.env.discount * following
    rows = np.resize(np.arange(len(log)), COMPARED) if len(log) < COMPARED else _spaced(len(log))
    pairs = np.concatenate([log.state, log.action.reshape(-1, 1)], axis=1)[rows]
    q, truth = values_at(network, pairs), earned[rows]
    # Without an end and without a change of reward all that was earned comes from the network itself.
    tells = log.terminated.any() or log.reward.std() > 0
    correlation = float(np.corrcoef(q, truth)[0, 1]) if tells and q.std() > 0 < truth.std() else np.nan
    at_starts = values_at(network, _pairs(policy, log.starts))
    return Earned(correlation, float(np.sqrt(np.mean((q - truth) ** 2))), at_starts)


def _spaced(count: int) -> np.ndarray:
    return np.linspace(0, count - 1, COMPARED).astype(int)


def _pairs(policy: Greedy, state: np.ndarray) -> np.ndarray:
    return np.concatenate([state, choose_all(policy, state).reshape(-1, 1)], axis=1)


def assess_q(network: Any, values: np.ndarray, earned: Earned, seen: Experience) -> Assessment:
    """What speaks against the Q-factors of a fit, as values."""
    bounds = seen.value_range
    checks = Checks(
        num_transitions=len(values),
        num_parameters=num_parameters(network),
        out_of_range=out_of_range(values, bounds),
        start_out_of_range=out_of_range(earned.at_starts, bounds) > 0,
        return_correlation=None if np.isnan(earned.correlation) else earned.correlation,
    )
    return judge(checks)
