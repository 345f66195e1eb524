"""Medians and ranges over seeds, for lines with bands."""

from typing import Any

import numpy as np

from gaussbell.experiments.study import select, settings


def bands(runs: Any, along: str, field: str) -> dict[str, np.ndarray]:
    """Median, smallest and largest of a field for each number of a setting."""
    places = settings(runs, along)
    groups = [select(runs, **{along: place})[field].values for place in places]
    return {
        "x": np.array(places, float),
        "y": np.array([np.median(group) for group in groups]),
        "low": np.array([group.min() for group in groups]),
        "high": np.array([group.max() for group in groups]),
    }
