"""The charts of each study, from its records: one file a study, as in `gaussbell.experiments`.

A file has functions from the data set of the cells to a chart, by what the chart shows. Each takes the
command that makes the cells, too.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gaussbell.report.parts import Chart
from gaussbell.report.studies import (
    architectures,
    assessments,
    control,
    convergence,
    endings,
    generalisation,
    noise,
    policy_iteration,
    propositions,
    star,
    values,
)

Draw = Callable[[Any, str], Chart]

CHARTS: Mapping[str, tuple[Draw, ...]] = {
    "star": (star.distances, star.errors, star.orders),
    "convergence": (convergence.curves, convergence.seconds),
    "generalisation": (generalisation.boxes, generalisation.surfaces),
    "architectures": (architectures.contours, architectures.seconds),
    "policy-iteration": (policy_iteration.bands, policy_iteration.runs),
    "propositions": (propositions.ends, propositions.activations, propositions.amplification),
    "assessments": (assessments.fits, assessments.scores),
    "values": (values.by_n_step, values.by_budget),
    "noise": (noise.finite_process, noise.mountain_car),
    "control": (control.cost, control.scores),
    "endings": (endings.improvements, endings.iterations),
}
"""By the name of the study, in the order of the page."""
