"""gaussbell evaluate star: a finite process, learned beside exact values."""

import enum
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.table import Table

import gaussbell as gb
from gaussbell import records
from gaussbell.cli.reports import report_evaluation
from gaussbell.cli.screen import coloured, print_facts, print_json, screen, showing_steps, write_record
from gaussbell.records.evaluations import Evaluation


class Method(enum.StrEnum):
    LEVENBERG_MARQUARDT = "levenberg-marquardt"
    DOGLEG = "dogleg"
    GAUSS_NEWTON = "gauss-newton"
    RESIDUAL_GRADIENT = "residual-gradient"
    SEMI_GRADIENT = "semi-gradient"
    SEMI_GAUSS_NEWTON = "semi-gauss-newton"


def evaluate_star(
    *,
    solver: Method = Method.LEVENBERG_MARQUARDT,
    step_size: float | None = None,
    damping: float | None = None,
    seed: int = 0,
    max_steps: int = 1000,
    tolerance: float = 1e-24,
    as_json: bool = False,
    out: Path | None = None,
    report: Path | None = None,
) -> bool:
    """Fit the star and compare with its exact values; did the solve succeed?"""
    method = _solver(solver, step_size, damping)
    chain = gb.environments.SevenStar().under()
    features_key, weights_key = jax.random.split(jax.random.key(seed))
    features = gb.encodings.normal(chain.num_states, 2, key=features_key)
    network = gb.MLP((2, 7, 1), key=weights_key)

    started = time.perf_counter()
    with showing_steps(f"star by {solver}", max_steps) as show:
        try:
            solution = gb.evaluate(
                network,
                chain,
                features=features,
                solver=method,
                max_steps=max_steps,
                tolerance=tolerance,
                on_progress=show,
            )
        except gb.SolveInterrupted as interrupt:
            solution = interrupt.solution
    seconds = time.perf_counter() - started

    with jax.enable_x64(True):
        learned = np.asarray(solution.network(features))
    settings = {
        "problem": "star",
        "solver": solver.value,
        "step_size": getattr(method, "step_size", None),
        "damping": getattr(method, "damping", None),
        "seed": seed,
        "sizes": list(network.sizes),
        "max_steps": max_steps,
        "tolerance": tolerance,
    }
    record = _record(settings, solution, chain, learned, seconds)
    if as_json:
        print_json(record)
    else:
        _print(record)
    if out is not None:
        gb.save_evaluation(out / "evaluation.json", solution, chain, features=features, problem="star")
        write_record(out, record, {"convergence.png": lambda figures, found: figures.draw_evaluation(found)})
    if report is not None:
        losses = np.asarray(solution.history.loss)
        kept = Evaluation(solution.network, chain, np.asarray(features), solution.status.name, losses, "star")
        report_evaluation(report, record, kept, out=out, key=seed)
    return bool(solution.succeeded)


def _solver(method: Method, step_size: float | None, damping: float | None) -> gb.solvers.Solver:
    """The solver that the options ask for; ValueError where an option does not belong to it."""
    given: dict[str, Any] = {"step_size": step_size, "damping": damping}
    given = {name: value for name, value in given.items() if value is not None}
    constructors: dict[Method, Any] = {
        Method.LEVENBERG_MARQUARDT: gb.LevenbergMarquardt,
        Method.DOGLEG: gb.Dogleg,
        Method.GAUSS_NEWTON: gb.GaussNewton,
        Method.RESIDUAL_GRADIENT: gb.ResidualGradient,
        Method.SEMI_GRADIENT: gb.SemiGradient,
        Method.SEMI_GAUSS_NEWTON: gb.SemiGaussNewton,
    }
    constructor = constructors[method]
    for name in given:
        if name not in constructor.__dataclass_fields__:
            option = name.replace("_", "-")
            raise ValueError(
                f"--{option}: {method} has none; leave the option out or choose another --solver."
            )
    return constructor(**given)


def _record(settings, solution, chain, learned, seconds) -> dict[str, Any]:
    return {
        "command": "evaluate",
        "settings": settings,
        "versions": records.versions(),
        "result": {
            "status": solution.status.name,
            "message": solution.status.value,
            "msbe": solution.msbe,
            "steps": solution.steps,
            "seconds": round(seconds, 3),
            "value_error": np.abs(learned - chain.values).max(),
            "sup_norm_bound": None
            if solution.assessment is None
            else solution.assessment.checks.sup_norm_bound,
        },
        "values": {"learned": learned, "exact": chain.values, "stationary": chain.stationary},
        "network": {"weights": [np.asarray(weight) for weight in solution.network.weights]},
        "history": solution.history.columns,
    }


def _print(record: dict[str, Any]) -> None:
    result, values = record["result"], record["values"]
    table = Table(title="star: value by state", title_justify="left")
    for heading in ("state", "learned", "exact", "difference"):
        table.add_column(heading, justify="right")
    for state, (learned, exact) in enumerate(zip(values["learned"], values["exact"], strict=True)):
        table.add_row(str(state), f"{learned:.9f}", f"{exact:.9f}", f"{learned - exact:+.1e}")
    screen.print(table)
    print_facts(
        {
            "NMSBE": f"{result['msbe']:.3g}",
            "bound": _bound(result["sup_norm_bound"]),
            "status": coloured(gb.Status[result["status"]]),
            "steps": str(int(result["steps"])),
            "seconds": f"{result['seconds']:.2f}, compilation included",
        }
    )


def _bound(bound: float | None) -> str:
    return (
        "none"
        if bound is None
        else f"no value is off by more than {bound:.2g}: |residual|_inf / (1 - discount)"
    )
