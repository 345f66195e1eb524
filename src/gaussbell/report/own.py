"""A report of a fit of one's own, in one call."""

from pathlib import Path
from typing import Any

import numpy as np

from gaussbell import records
from gaussbell.environments import Simulator
from gaussbell.optimise.solution import Solution
from gaussbell.records.diagnosis import diagnose
from gaussbell.records.evaluations import Evaluation
from gaussbell.report.build import page_of_evaluation, write_report

CALL = "gaussbell.report.report_evaluation"


def report_evaluation(
    path: Path | str,
    solution: Solution,
    data: Any,
    *,
    features: Any = None,
    env: Simulator | None = None,
    policy: Any = None,
    name: str = "a fit",
    settings: dict[str, Any] | None = None,
    key: int = 0,
) -> Path:
    """Diagnose what `evaluate` returned, and write a page about it: one HTML file that needs nothing else.

    It shows whether the value can be trusted, convergence, maps of value, residual and estimated error, and
    the spectrum of the Jacobians.

    Args:
        data, features: As they were given to `evaluate`.
        env, policy: A simulator, which knows more than the data.
        name, settings: What the page should say of the fit.

    Example:
        >>> import gaussbell as gb, tempfile
        >>> from gaussbell.report import report_evaluation
        >>> chain = gb.environments.SevenStar().under()
        >>> features = gb.encodings.normal(chain.num_states, 2, key=0)
        >>> found = gb.evaluate(gb.MLP((2, 7, 1), key=0), chain, features=features)
        >>> file = f"{tempfile.mkdtemp()}/star.html"
        >>> report_evaluation(file, found, chain, features=features, name="the star").name
        'star.html'
    """
    features = None if features is None else np.asarray(features)
    losses = np.asarray(solution.history.loss)
    kept = Evaluation(solution.network, data, features, solution.status.name, losses, None)
    diagnosis = diagnose(kept, key=key, env=env, policy=policy, landscape=False)
    record = {
        "settings": {"problem": name} | (settings or {}),
        "versions": records.versions(),
        "result": {
            "status": solution.status.name,
            "message": solution.status.value,
            "msbe": solution.msbe,
            "steps": solution.steps,
            "warnings": list(solution.warnings),
        },
        "history": solution.history.columns,
    }
    return write_report(page_of_evaluation(record, diagnosis, CALL), Path(path))
