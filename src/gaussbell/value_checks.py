"""Q-factors beside what roll-outs earned, and beside what the rewards can add up to."""

from typing import Any, NamedTuple

import numpy as np

from gaussbell.experience import Experience
from gaussbell.logs import Log, choose_all
from gaussbell.networks import values_at
from gaussbell.policies import Greedy

RANGE_SLACK = 0.5
"""How far Q may leave the range of possible values, in differences of rewards, before it is suspicious."""
SUSPICIOUS_SHARE = 0.05
LOW_CORRELATION = 0.3
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


def suspicions(values: np.ndarray, earned: Earned, seen: Experience) -> tuple[str, ...]:
    """What is suspicious about the Q-factors of a fit, in sentences."""
    said = []
    low, high = seen.value_range
    slack = RANGE_SLACK * (seen.rewards[1] - seen.rewards[0])
    beyond = float(((values < low - slack) | (values > high + slack)).mean())
    if beyond > SUSPICIOUS_SHARE:
        said.append(f"{beyond:.0%} of the Q-factors are beyond what the rewards can add up to.")
    if (earned.at_starts > high + slack).any() or (earned.at_starts < low - slack).any():
        said.append(
            "Q at the start is beyond what the rewards can add up to: a spike there hides a wrong value "
            "elsewhere. Add start or visited states to the rows, or use more steps."
        )
    if earned.correlation < LOW_CORRELATION:
        said.append(
            f"Q correlates by {earned.correlation:.2f} with what the roll-outs earned: it ranks actions at "
            "best, it is no value."
        )
    return tuple(said)
