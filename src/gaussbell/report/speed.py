"""The chart of the benchmark of steps, from its record."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaussbell.report.parts import Axis, Chart, Control, Series, spread_colours


def chart_step_time(record: Mapping[str, Any], command: str) -> list[Chart]:
    """Milliseconds of a step by size and method."""
    results = record["results"]
    sizes = [f"{one['parameters']:,} parameters, {one['rows']:,} samples" for one in results]
    series = [
        Series(
            name,
            "steps",
            {
                "x": np.arange(float(len(results))),
                "y": np.array([one["milliseconds"].get(name, np.nan) for one in results]),
            },
            {"method": name},
            colour,
        )
        for name, colour in spread_colours(list(results[0]["milliseconds"])).items()
    ]
    return [
        Chart(
            "Time per iteration against size",
            "Milliseconds of one step, all methods in one run; the BLAS floor is the time of the "
            "multiplications and factorisations alone.",
            "Lines of milliseconds by size of the problem on a logarithmic axis.",
            Axis("size", labels=sizes),
            Axis("milliseconds per step", log=True),
            series,
            command,
            controls=(Control("method", "toggle"),),
        )
    ]
