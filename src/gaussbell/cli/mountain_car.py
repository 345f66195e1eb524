"""gaussbell evaluate mountain-car: samples, solve, and the error against Monte-Carlo returns."""

import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import gaussbell as gb
from gaussbell import records
from gaussbell.cli.reports import report_evaluation
from gaussbell.cli.screen import (
    coloured,
    escape,
    notes,
    print_facts,
    print_json,
    screen,
    showing_steps,
    write_record,
)
from gaussbell.records.evaluations import Evaluation

TRUTH_GRID = 200
"""Points of the grid along each axis."""


def evaluate_mountain_car(
    *,
    samples: int = 2000,
    n_step: int = 100,
    look_ahead: int = 50,
    discount: float = 0.99,
    seed: int = 0,
    max_steps: int = 1000,
    as_json: bool = False,
    out: Path | None = None,
    report: Path | None = None,
) -> bool:
    """Evaluate the paper's policy and compare with Monte-Carlo returns; did the error stop falling?"""
    started = time.perf_counter()
    car = gb.environments.MountainCar(discount=discount)
    policy = car.along_velocity
    with showing_steps(f"{samples:,} transitions with n_step {n_step}", max_steps) as show:
        found = gb.evaluate_policy(
            car,
            policy,
            budget=gb.evaluation.budget_for(samples * n_step),
            max_transitions=samples,
            n_step=n_step,
            key=seed,
            max_steps=max_steps,
            on_progress=show,
        )
    fitted = time.perf_counter()
    with notes.status("Monte-Carlo returns"):
        truth = gb.monte_carlo.value_on_grid(car, policy, (TRUTH_GRID, TRUTH_GRID))
    with jax.enable_x64(True):
        by_network = np.asarray(found.network(truth.state))
        learned = np.asarray(found.value(truth.state, look_ahead=look_ahead)) if look_ahead else by_network
    spread, options = truth.value.std(), {"discount": discount}
    record = {
        "command": "evaluate",
        "settings": {
            "problem": "mountain-car",
            "samples": samples,
            "n_step": n_step,
            "look_ahead": look_ahead,
            "discount": discount,
            "seed": seed,
            "max_steps": max_steps,
            "grid": TRUTH_GRID,
        },
        "versions": records.versions(),
        "result": {
            "status": found.status.name,
            "message": found.status.value,
            "msbe": found.msbe,
            "solver_steps": found.steps,
            "relative_error": np.sqrt(np.mean((learned - truth.value) ** 2)) / spread,
            "relative_error_without_look_ahead": np.sqrt(np.mean((by_network - truth.value) ** 2)) / spread,
            "estimated_relative_error": found.relative_error,
            "spread": spread,
            "assessment": found.assessment.to_dict(),
            "facts": list(found.assessment.checks.facts),
            "warnings": list(found.warnings),
            "simulated": found.simulated,
            "seconds_to_fit": round(fitted - started, 2),
            "seconds": round(time.perf_counter() - started, 2),
        },
        "history": found.history.columns,
        "axes": [axis.tolist() for axis in truth.axes],
        "true": truth.table().round(4),
        "learned": truth.table(learned).round(4),
    }
    if as_json:
        print_json(record)
    else:
        _print(record)
    if out is not None:
        gb.save_evaluation(
            out / "evaluation.json", found, found.transitions, problem="mountain-car", options=options
        )
        write_record(out, record, {"value.png": lambda figures, kept: figures.draw_values(kept)})
    if report is not None:
        losses = np.asarray(found.history.loss)
        kept = Evaluation(
            found.network, found.transitions, None, found.status.name, losses, "mountain-car", options
        )
        report_evaluation(report, record, kept, out=out, key=seed)
    return bool(found.succeeded)


def _print(record: dict[str, Any]) -> None:
    settings, result = record["settings"], record["result"]
    ahead, error = settings["look_ahead"], result["relative_error"]
    alone = result["relative_error_without_look_ahead"]
    estimate, seconds = result["estimated_relative_error"], result["seconds"]
    fitting = result["seconds_to_fit"]
    print_facts(
        {
            "policy": f"Mountain Car, pushed along its velocity; discount {settings['discount']:g}",
            "samples": f"{settings['samples']:,} transitions with n_step {settings['n_step']}",
            "error": f"[bold]{error:.3f}[/] standard deviations of the value, looking {ahead} steps ahead",
            "": f"{alone:.3f} by the network alone; estimated {estimate:.3f} from fresh paths alone",
            "NMSBE": f"{result['msbe']:.3g}",
            "fit": "; ".join(result["facts"]),
            "status": coloured(gb.Status[result["status"]]),
            "solver steps": str(int(result["solver_steps"])),
            "seconds": f"{seconds:.1f} in all, {fitting:.1f} to sample and fit, compilation included",
        }
    )
    for warning in result["warnings"]:
        screen.print(f"[red]warning:[/] {escape(warning)}", highlight=False, soft_wrap=True)
