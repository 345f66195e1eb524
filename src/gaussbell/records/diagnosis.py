"""Everything that a fitted network and its data tell, as one record: for `diagnose` and for reports."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gaussbell import diagnostics, records
from gaussbell.data.transitions import Transitions
from gaussbell.diagnostics.assessment import Assessment
from gaussbell.diagnostics.held_out import long_targets
from gaussbell.environments import MountainCar, Simulator
from gaussbell.networks.encodings import number
from gaussbell.networks.value_function import redrawn, values_at
from gaussbell.numerics.precision import double_throughout
from gaussbell.processes.markov_chain import MarkovChain
from gaussbell.records.evaluations import Evaluation

LANDSCAPE_STEPS = 200
WHOLE = 1e-6
"""How near to a whole number the steps of a transition must be, by the discount, to count as such."""
SLICE_POINTS, MAP_POINTS = 41, 101
"""Points of a slice along each axis, and of the one map of a state of two parts."""
MOST_AXES = 4
"""Slices show the axes along which the value changes most, so many."""
MOST_ACTIONS = 5
MOST_SHOWN = 1000
"""Samples whose residual and estimated error are shown."""
STATE_NAMES = {
    "mountain-car": ("position", "velocity"),
    "cart-pole": ("position", "velocity", "angle", "angular velocity"),
    "acrobot": ("first angle", "second angle", "first angular velocity", "second angular velocity"),
}


@double_throughout
def diagnose(
    kept: Evaluation,
    *,
    key: int = 0,
    env: Simulator | None = None,
    policy: Any = None,
    landscape: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """A record of spectra, curvature, assessments, maps of value and residual, and the landscape.

    Args:
        env, policy: A simulator, by default that of a problem that comes along.
        landscape: Whether methods are to run from fresh weights.
        tell: Hears what is being done.
    """
    started = time.perf_counter()
    given: dict[str, Any] = {"features": kept.features}
    tell("spectra of the Jacobians")
    spectra = diagnostics.spectra(kept.network, kept.data, **given)
    tell("curvature of the true Hessian")
    curvature = diagnostics.curvature(kept.network, kept.data, **given)
    tell("how far the value can be trusted")
    simulator = {"env": env, "policy": policy} if env is not None else _simulator(kept)
    assessment = diagnostics.assess(kept.network, kept.data, key=key, **given, **simulator)
    assessments = [assessment]
    if simulator:
        assessments.append(diagnostics.assess(kept.network, kept.data, key=key))
    tell("maps of the value")
    record = {
        "command": "diagnose",
        "settings": {"problem": kept.problem, "seed": key},
        "versions": records.versions(),
        "fit": {
            "status": kept.status,
            "loss": kept.losses[-1] if len(kept.losses) else None,
            "losses": kept.losses,
            "kind": "finite chain" if isinstance(kept.data, MarkovChain) else "samples",
            "order_of_convergence": diagnostics.order_of_convergence(np.sqrt(kept.losses), floor=1e-12),
        },
        "checks": assessment.checks.to_dict(),
        "spectra": {
            name: {
                "rank": one.rank,
                "rows": one.rows,
                "parameters": one.parameters,
                "condition": one.condition if np.isfinite(one.condition) else None,
                "effective_rank": one.effective_rank,
                "values": one.values,
            }
            for name, one in spectra._asdict().items()
        },
        "curvature": {
            "largest": curvature.largest,
            "smallest": curvature.smallest,
            "negative_share": curvature.negative_share,
        },
        "assessments": {str(one.reference): one.to_dict() for one in assessments},
        "maps": map_states(kept, assessment),
        "trusted": assessment.trusted,
    }
    if landscape:
        tell("the landscape, and the paths of methods in it")
        start = redrawn(kept.network, key)
        seen = diagnostics.landscape(start, kept.data, max_steps=LANDSCAPE_STEPS, **given)
        record["landscape"] = seen._asdict()
    return record | {"seconds": round(time.perf_counter() - started, 2)}


def map_states(kept: Evaluation, assessment: Assessment) -> dict[str, Any]:
    """The value, the residual and the estimated error over the states.

    Of a finite chain, for each state, beside the exact value. Of samples, the value on two-dimensional
    slices through the median state (a line if it has one part only), for each action of Q-factors, and the
    rest at some of the rows.
    """
    if isinstance(kept.data, MarkovChain):
        chain = kept.data
        inputs = number(chain.num_states) if kept.features is None else kept.features
        values = values_at(kept.network, inputs)
        residual = values - chain.reward - chain.discount * (chain.transition @ values)
        return {"value": values, "exact": chain.values, "residual": residual}
    data = kept.data
    names = state_names(kept.problem, data.state.shape[1])
    rows = data.take(np.linspace(0, len(data) - 1, min(len(data), MOST_SHOWN)).astype(int))
    inputs = np.asarray(rows.inputs)
    return {
        "names": names,
        "slices": _slices(kept.network, data),
        "rows": {
            "state": np.asarray(rows.state),
            "value": values_at(kept.network, inputs),
            "residual": values_at(kept.network, inputs) - long_targets(kept.network, rows),
            "error": assessment.per_state(inputs),
        },
    }


def state_names(problem: str | None, width: int) -> list[str]:
    """What the parts of a state are called."""
    known = STATE_NAMES.get(problem or "", ())
    return list(known) if len(known) == width else [f"state {k}" for k in range(width)]


def _slices(network: Any, data: Transitions) -> list[dict[str, Any]]:
    states = np.asarray(data.state)
    centre = np.median(states, axis=0)
    low, high = np.quantile(states, [0.005, 0.995], axis=0)
    count = MAP_POINTS if len(centre) <= 2 else SLICE_POINTS
    axes = [np.linspace(a, b, count) for a, b in zip(low, high, strict=True)]
    actions = _actions(data)

    def value(points: np.ndarray, action: np.ndarray) -> np.ndarray:
        return values_at(network, np.hstack([points, np.tile(action, (len(points), 1))]))

    changes = []
    for k, axis in enumerate(axes):
        line = np.tile(centre, (count, 1))
        line[:, k] = axis
        changes.append(float(np.ptp(value(line, actions[0]))))
    chosen = sorted(np.argsort(changes)[::-1][:MOST_AXES].tolist())
    if len(chosen) == 1:
        return [
            {"axes": chosen, "action": action, "x": axes[0], "value": value(axes[0][:, None], action)}
            for action in actions
        ]
    slices = []
    for first, second in itertools.combinations(chosen, 2):
        points = np.tile(centre, (count**2, 1))
        points[:, first] = np.repeat(axes[first], count)
        points[:, second] = np.tile(axes[second], count)
        for action in actions:
            table = value(points, action).reshape(count, count)
            slices.append(
                {"axes": [first, second], "action": action}
                | {"x": axes[first], "y": axes[second], "value": table.T}
            )
    return slices


def _actions(data: Transitions) -> np.ndarray:
    """The actions to draw Q-factors for, a row each; of state values one row without entries."""
    if data.action is None:
        return np.zeros((1, 0))
    found = np.unique(np.asarray(data.action).reshape(len(data), -1), axis=0)
    return found if len(found) <= MOST_ACTIONS else found[[len(found) // 2]]


def _simulator(kept: Evaluation) -> dict[str, Any]:
    """What simulates a problem that comes along, if it is the process that the data come from."""
    if kept.problem != "mountain-car" or not isinstance(kept.data, Transitions):
        return {}
    car = MountainCar(**kept.options)
    ahead = float(np.asarray(kept.data.discount).max(initial=0.0))
    spans = np.log(ahead) / np.log(car.discount) if 0 < ahead < 1 else 1.0
    if abs(spans - round(spans)) > WHOLE * spans:  # another discount than the data's
        return {}
    return {"env": car, "policy": car.along_velocity}
